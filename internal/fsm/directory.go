package fsm

import "sort"

// Person is somebody the directory knows.
type Person struct {
	ID       string // the e-mail address unless the directory says otherwise
	Name     string
	Email    string
	Locale   string
	Timezone string
	Groups   []string
	Roles    []string
	Active   bool
}

// Directory is people and groups in memory; immutable. Version is checked in the locked read.
type Directory struct {
	Version int64
	people  map[string]*Person
	groups  map[string][]*Person
	roles   map[string][]*Person
}

// NewDirectory makes a directory; people are kept in the order of their ids.
func NewDirectory(version int64, people []Person) *Directory {
	d := &Directory{Version: version, people: map[string]*Person{}, groups: map[string][]*Person{}, roles: map[string][]*Person{}}
	sorted := append([]Person(nil), people...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].ID < sorted[j].ID })
	for i := range sorted {
		p := &sorted[i]
		d.people[p.ID] = p
		for _, g := range p.Groups {
			d.groups[g] = append(d.groups[g], p)
		}
		for _, r := range p.Roles {
			d.roles[r] = append(d.roles[r], p)
		}
	}
	return d
}

// Person returns the person of that id, or nil.
func (d *Directory) Person(id string) *Person {
	if d == nil {
		return nil
	}
	return d.people[id]
}

// Group returns the active and inactive members of a group, by id.
func (d *Directory) Group(name string) []*Person {
	if d == nil {
		return nil
	}
	return d.groups[name]
}

// Role returns those who have a role, by id.
func (d *Directory) Role(name string) []*Person {
	if d == nil {
		return nil
	}
	return d.roles[name]
}

// People returns everybody, by id.
func (d *Directory) People() []*Person {
	all := make([]*Person, 0, len(d.people))
	for _, p := range d.people {
		all = append(all, p)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
	return all
}
