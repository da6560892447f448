package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"gorm.io/gorm"

	"vobo/internal/fault"
	"vobo/internal/fsm"
)

// SyncPeople sets the people listed (by id) and touches no other; a person who is listed
// without e-mail address gets their id for it. It returns how many rows changed and raises
// the directory's version when there are any. A person whom it makes inactive loses their
// sessions and login links; a deactivation by command outlives it. InvalidInput for
// an empty or repeated id.
func (s *Store) SyncPeople(ctx context.Context, people []fsm.Person) (changed int, err error) {
	wanted, err := checkPeople(people)
	if err != nil || len(wanted) == 0 {
		return 0, err
	}
	err = s.inTransaction(ctx, func(tx *gorm.DB) error {
		changed = 0
		if err := lockDirectory(tx); err != nil {
			return err
		}
		known, err := readPeople(tx)
		if err != nil {
			return err
		}
		byID := map[string]personRow{}
		for _, row := range known {
			byID[row.person.ID] = row
		}
		for _, person := range wanted {
			row, found := byID[person.ID]
			if found && samePerson(row, person) {
				continue
			}
			if err := writePerson(tx, person); err != nil {
				return err
			}
			if found && !person.Active {
				if err := closeDoors(tx, person.ID); err != nil {
					return err
				}
			}
			changed++
		}
		return raiseDirectory(tx, changed)
	})
	if err != nil {
		return 0, err
	}
	return changed, nil
}

// checkPeople returns the people in the form in which they are stored.
func checkPeople(people []fsm.Person) ([]fsm.Person, error) {
	wanted := make([]fsm.Person, 0, len(people))
	seen := map[string]bool{}
	for i, person := range people {
		switch {
		case strings.TrimSpace(person.ID) == "":
			return nil, fault.New(fault.InvalidInput, "Person number %d has no id. Give each person an id.", i+1)
		case seen[person.ID]:
			return nil, fault.New(fault.InvalidInput, "%s is listed twice. List each person once.", person.ID)
		}
		for _, text := range append([]string{person.ID, person.Name, person.Email, person.Locale, person.Timezone}, append(person.Groups, person.Roles...)...) {
			if err := checkText("A field of "+strings.ToValidUTF8(person.ID, "�"), text); err != nil {
				return nil, err
			}
		}
		seen[person.ID] = true
		if person.Email == "" {
			person.Email = person.ID
		}
		person.Groups, person.Roles = nameSet(person.Groups), nameSet(person.Roles)
		wanted = append(wanted, person)
	}
	return wanted, nil
}

// nameSet is the names sorted, each once, none empty; never nil.
func nameSet(names []string) []string {
	set := make([]string, 0, len(names))
	for _, name := range names {
		if name != "" {
			set = append(set, name)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// personRow is a person as synced: person.Active is what the last sync said.
type personRow struct {
	person      fsm.Person
	deactivated bool // by command
}

func samePerson(row personRow, person fsm.Person) bool {
	old := row.person
	return old.Name == person.Name && old.Email == person.Email && old.Locale == person.Locale &&
		old.Timezone == person.Timezone && old.Active == person.Active &&
		slices.Equal(old.Groups, person.Groups) && slices.Equal(old.Roles, person.Roles)
}

// lockDirectory lets one change of the directory wait for another.
func lockDirectory(tx *gorm.DB) error {
	_, _, err := selectOne(tx, readCount, locked(tx, `SELECT id FROM meta WHERE id = 1`, "FOR UPDATE"))
	return err
}

// raiseDirectory tells every replica's committer, which reads the version under its locks,
// that the directory changed.
func raiseDirectory(tx *gorm.DB, changed int) error {
	if changed == 0 {
		return nil
	}
	_, err := execute(tx, `UPDATE meta SET directory_version = directory_version + 1 WHERE id = 1`)
	return err
}

// membership is a person's group or role.
type membership struct{ person, name string }

func readMembership(row rowScanner, m *membership) error { return row.Scan(&m.person, &m.name) }

// readPeople reads everybody, by id, groups and roles sorted.
func readPeople(db *gorm.DB) ([]personRow, error) {
	people, err := selectRows(db, func(row rowScanner, p *personRow) error {
		return row.Scan(&p.person.ID, &p.person.Name, &p.person.Email, &p.person.Locale, &p.person.Timezone,
			&p.person.Active, &p.deactivated)
	}, `SELECT id, name, email, locale, timezone, active, deactivated_at IS NOT NULL FROM people`)
	if err != nil {
		return nil, err
	}
	groups, err := selectRows(db, readMembership, `SELECT person, name FROM people_groups`)
	if err != nil {
		return nil, err
	}
	roles, err := selectRows(db, readMembership, `SELECT person, name FROM people_roles`)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(people, func(a, b personRow) int { return cmp.Compare(a.person.ID, b.person.ID) })
	groupsOf, rolesOf := byPerson(groups), byPerson(roles)
	for i := range people {
		id := people[i].person.ID
		people[i].person.Groups, people[i].person.Roles = nameSet(groupsOf[id]), nameSet(rolesOf[id])
	}
	return people, nil
}

func byPerson(memberships []membership) map[string][]string {
	names := map[string][]string{}
	for _, m := range memberships {
		names[m.person] = append(names[m.person], m.name)
	}
	return names
}

// writePerson sets a person's row, groups and roles; deactivated_at stays.
func writePerson(tx *gorm.DB, p fsm.Person) error {
	if _, err := execute(tx, `INSERT INTO people (id, name, email, locale, timezone, active) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, email = excluded.email, locale = excluded.locale,
			timezone = excluded.timezone, active = excluded.active`,
		p.ID, p.Name, p.Email, p.Locale, p.Timezone, p.Active); err != nil {
		return err
	}
	for table, names := range map[string][]string{"people_groups": p.Groups, "people_roles": p.Roles} {
		if _, err := execute(tx, "DELETE FROM "+table+" WHERE person = ?", p.ID); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := execute(tx, "INSERT INTO "+table+" (person, name) VALUES (?, ?)", p.ID, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// closeDoors ends a person's sessions and login links, so that none comes back to life
// should the person be made active again. Decision links die by the directory's new version.
func closeDoors(tx *gorm.DB, person string) error {
	if _, err := execute(tx, `DELETE FROM sessions WHERE person = ?`, person); err != nil {
		return err
	}
	_, err := execute(tx, `DELETE FROM login_links WHERE person = ?`, person)
	return err
}

// lockActive keeps a person from being deactivated until the transaction ends. NotFound for
// one who is unknown or not active.
func lockActive(tx *gorm.DB, person string) error {
	_, found, err := selectOne(tx, func(row rowScanner, id *string) error { return row.Scan(id) },
		locked(tx, `SELECT id FROM people WHERE id = ? AND active AND deactivated_at IS NULL`, "FOR SHARE"), person)
	if err != nil || found {
		return err
	}
	return fault.New(fault.NotFound, "There is no active person %q.", person)
}

// DeactivatePerson deactivates by command: outlives a sync. Sessions, login links and
// decision links die at once. A person who is deactivated already stays so. NotFound.
func (s *Store) DeactivatePerson(ctx context.Context, id string) error {
	if err := checkText("The person's id", id); err != nil {
		return err
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return s.inTransaction(ctx, func(tx *gorm.DB) error {
		if err := lockDirectory(tx); err != nil {
			return err
		}
		there, _, err := selectOne(tx, readCount, `SELECT count(*) FROM people WHERE id = ?`, id)
		switch {
		case err != nil:
			return err
		case there == 0:
			return fault.New(fault.NotFound, "There is no person %q. List the people to see their ids.", id)
		}
		n, err := execute(tx, `UPDATE people SET deactivated_at = ? WHERE id = ? AND deactivated_at IS NULL`, stamp(now), id)
		if err != nil {
			return err
		}
		if err := closeDoors(tx, id); err != nil {
			return err
		}
		return raiseDirectory(tx, int(n))
	})
}

// People returns the whole directory, consistent with its version.
func (s *Store) People(ctx context.Context) (*fsm.Directory, error) {
	var directory *fsm.Directory
	err := s.reader(ctx).Transaction(func(tx *gorm.DB) error {
		version, _, err := selectOne(tx, func(row rowScanner, v *int64) error { return row.Scan(v) },
			`SELECT directory_version FROM meta WHERE id = 1`)
		if err != nil {
			return err
		}
		rows, err := readPeople(tx)
		if err != nil {
			return err
		}
		people := make([]fsm.Person, 0, len(rows))
		for _, row := range rows {
			row.person.Active = row.person.Active && !row.deactivated
			people = append(people, row.person)
		}
		directory = fsm.NewDirectory(version, people)
		return nil
	}, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, s.dbError(err)
	}
	return directory, nil
}
