package fsm

import (
	"context"
	"errors"
	"fmt"

	looplab "github.com/looplab/fsm"
)

// chosen is the name of the moves that a choice makes; no event can have it.
const chosen = "→"

// walk runs one step on a looplab machine: the event takes from to the first of
// path, each choice on the way to the next. The machine knows only what was already
// chosen, lives for this step and has no callbacks, so none of looplab's traps (last
// of two equal transitions, unknown callback keys, errors after the move) can spring.
// It returns the state the machine ended in, which the caller compares.
func walk(from, event string, path []string) (string, error) {
	moves := make([]looplab.EventDesc, 0, len(path))
	src := from
	for i, dst := range path {
		name := event
		if i > 0 {
			name = chosen + src
		}
		moves = append(moves, looplab.EventDesc{Name: name, Src: []string{src}, Dst: dst})
		src = dst
	}
	machine := looplab.NewFSM(from, moves, nil)
	for _, m := range moves {
		err := machine.Event(context.Background(), m.Name)
		var same looplab.NoTransitionError
		if errors.As(err, &same) && same.Err == nil && m.Src[0] == m.Dst {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("state %s, event %s: %w", m.Src[0], m.Name, err)
		}
	}
	return machine.Current(), nil
}
