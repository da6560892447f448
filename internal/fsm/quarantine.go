package fsm

import "vobo/internal/fault"

// quarantine notes that an event of the engine failed: Name says which (the ref of
// the attention), Reason how. Once per ref; the event is tried again by itself.
func (p *planner) quarantine() error {
	before := len(p.inst.Attention)
	p.attention("quarantine", p.ev.Name, p.ev.Reason)
	if len(p.inst.Attention) == before {
		return fault.New(fault.Conflict, "This failure is known already.")
	}
	return p.record(Transition{Kind: TQuarantine, Event: p.ev.Name, From: p.inst.State, Wait: p.inst.Wait})
}
