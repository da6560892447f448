package store

import (
	"reflect"
	"testing"

	"vobo/internal/fsm"
)

func TestWhatIsCommittedIsListedFoundAndCounted(t *testing.T) {
	t.Parallel()
	onEachDatabase(t, func(t *testing.T, b *bench) {
		p := newSimple(b.Store)
		start := startJob(t)
		start.Event.Start.Labels = map[string]string{"place": "MÜNCHEN 50%"}
		p.commit(t, start)
		wantWritten(t, start)
		id := start.Event.Instance
		bench := TaskFilter{Person: "system:bench"}
		if got := b.findTasks(t, bench); len(got) != 1 || got[0] != id+"-1-1" {
			t.Errorf("the open tasks are %v", got)
		}
		wantIDs(t, "of a search for the title", b.findTasks(t, TaskFilter{Q: "reVIEW"}), id+"-1-1")
		for name, f := range map[string]InstanceFilter{
			"a label": {Label: [2]string{"place", "MÜNCHEN 50%"}}, "a label's text": {Q: "münchen 50%"}, "its requester": {ReadableBy: &Reader{ID: "system:bench"}},
			"one who was asked": {ReadableBy: &Reader{ID: "x", Refs: []string{"system:bench"}}},
		} {
			wantIDs(t, name, b.find(t, f), id)
		}
		decision := raiseJob(t, id, "approve")
		p.commit(t, decision)
		wantWritten(t, decision)
		wantIDs(t, "after the decision", b.findTasks(t, bench))
		wantIDs(t, "of what is done", b.findTasks(t, TaskFilter{Person: "system:bench", Status: "done"}), id+"-1-1")
		wantIDs(t, "of effects", b.findEffects(t, EffectFilter{Instance: id}), id+"-2-1")
		page, err := b.Instances(t.Context(), InstanceFilter{Status: fsm.Finished}, Paging{})
		want := p.read(t, id).Instance
		want.Data = nil
		if err != nil || len(page.Items) != 1 || !reflect.DeepEqual(page.Items[0], want) {
			t.Errorf("got  %+v, %v\nwant %+v", page.Items, err, want)
		}
		history, err := b.History(t.Context(), id, Paging{})
		if err != nil || len(history.Items) != 2 || history.Items[1].Event != "approve" || history.Items[1].PreviousHash != history.Items[0].Hash {
			t.Errorf("got %+v, %v", history.Items, err)
		}
	})
}
