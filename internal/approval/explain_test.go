package approval

import (
	"strings"
	"testing"
)

// An instance shows whose child it is and how its own children fare; explain says which
// are missing.
func TestAParentShowsHowItsChildrenFare(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, b *bundle) {
		id := b.family("family", 0, 1, 2)
		b.rest()
		kids := b.children(id)
		if len(kids) != 3 {
			t.Fatalf("children: %+v", kids)
		}
		b.raise(b.as("olga@example.com"), kids[1].ID, "well")
		b.rest()
		v := b.instance(id)
		if len(v.Children) != 1 || v.Parent != "" {
			t.Fatalf("the parent shows %+v, %q", v.Children, v.Parent)
		}
		want := ChildrenView{Effect: b.effect(id, "spread").ID, Name: "spread", Total: 3, Running: 2, Ended: 1}
		if v.Children[0] != want {
			t.Errorf("the parent shows %+v, want %+v", v.Children[0], want)
		}
		if kid := b.instance(kids[0].ID); kid.Parent != id || len(kid.Children) != 0 {
			t.Errorf("the child shows %q, %+v", kid.Parent, kid.Children)
		}
		x, err := b.svc.Explain(b.ctx, admin, id)
		if err != nil || len(x.Children) != 1 || !strings.Contains(x.Sentence, "Of 3 instances that spread starts, 1 ended well.") {
			t.Errorf("explain: %q, %+v, %v", x.Sentence, x.Children, err)
		}
		e, err := b.svc.Effect(b.ctx, admin, want.Effect)
		if err != nil || e.Request == nil || e.Request.Definition != "kid" || e.Request.Children != 3 {
			t.Errorf("the effect is shown as %s, %v", Render(e), err)
		}
		if n := metric(t, b.svc, "vobo_children_started_total"); n != 3 {
			t.Errorf("%v children are counted", n)
		}
	})
}
