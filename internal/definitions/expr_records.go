package definitions

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"vobo/internal/fault"
)

// record is one of the names that are not JSON: actor, instance, last, votes,
// response, undone, callback, env, and what they hold.
type record struct {
	t     *recordType
	env   *Env
	actor *ActorVars
	vote  *VoteVars
}

// recordType describes the fields of a record. A type with an open function takes
// any field for which it gives a type.
type recordType struct {
	cel    *types.Type
	names  []string
	fields map[string]*types.Type
	open   func(name string) *types.Type
	get    func(r *record, name string) (any, error)
}

const recordPrefix = "record "

func newRecordType(name string, fields map[string]*types.Type, get func(r *record, name string) (any, error)) *recordType {
	return &recordType{cel: types.NewObjectType(recordPrefix + name), names: sortedNames(fields), fields: fields, get: get}
}

func (t *recordType) fieldType(name string) *types.Type {
	if f := t.fields[name]; f != nil {
		return f
	}
	if t.open != nil {
		return t.open(name)
	}
	return nil
}

var (
	stringList = types.NewListType(types.StringType)

	actorType = newRecordType("actor", map[string]*types.Type{
		"id": types.StringType, "name": types.StringType, "groups": stringList, "roles": stringList,
	}, func(r *record, name string) (any, error) {
		switch name {
		case "id":
			return r.actor.ID, nil
		case "name":
			return r.actor.Name, nil
		case "groups":
			return textList(r.actor.Groups), nil
		}
		return textList(r.actor.Roles), nil
	})

	instanceType = newRecordType("instance", map[string]*types.Type{
		"id": types.StringType, "definition": types.StringType, "version": types.IntType, "state": types.StringType,
		"key": types.StringType, "started_at": types.TimestampType, "requester": types.StringType,
	}, func(r *record, name string) (any, error) {
		i := &r.env.Instance
		switch name {
		case "id":
			return i.ID, nil
		case "definition":
			return i.Definition, nil
		case "version":
			return i.Version, nil
		case "state":
			return i.State, nil
		case "key":
			return i.Key, nil
		case "started_at":
			return i.StartedAt, nil
		}
		return i.Requester, nil
	})

	lastType = newRecordType("last", map[string]*types.Type{
		"event": types.StringType, "actor": actorType.cel, "comment": types.StringType, "input": types.DynType, "at": types.TimestampType,
	}, func(r *record, name string) (any, error) {
		l := &r.env.Last
		switch name {
		case "event":
			return l.Event, nil
		case "actor":
			return &record{t: actorType, env: r.env, actor: &l.Actor}, nil
		case "comment":
			return l.Comment, nil
		case "at":
			return l.At, nil
		}
		return present(l.Input, "input")
	})

	voteType = newRecordType("vote", map[string]*types.Type{
		"actor": actorType.cel, "input": types.DynType, "comment": types.StringType,
	}, func(r *record, name string) (any, error) {
		switch name {
		case "actor":
			return &record{t: actorType, env: r.env, actor: &r.vote.Actor}, nil
		case "comment":
			return r.vote.Comment, nil
		}
		return present(r.vote.Input, "input")
	})

	responseType = newRecordType("response", map[string]*types.Type{"status": types.IntType},
		func(r *record, _ string) (any, error) { return r.env.Status, nil })

	undoneType = newRecordType("undone", map[string]*types.Type{"result": types.DynType, "input": types.DynType},
		func(r *record, name string) (any, error) {
			if name == "result" {
				return r.env.Undone.Result, nil
			}
			return r.env.Undone.Input, nil
		})

	urlsType = openRecordType("urls", types.StringType, func(r *record, name string) (any, error) {
		if url, ok := r.env.Callback.URLs[name]; ok {
			return url, nil
		}
		return nil, absentError{name}
	})

	callbackType = newRecordType("callback", map[string]*types.Type{"url": types.StringType, "urls": urlsType.cel},
		func(r *record, name string) (any, error) {
			if name == "url" {
				return r.env.Callback.URL, nil
			}
			return &record{t: urlsType, env: r.env}, nil
		})

	varsType = openRecordType("env", types.StringType, func(r *record, name string) (any, error) {
		if v, ok := r.env.Vars[name]; ok {
			return v, nil
		}
		return nil, fault.New(fault.GuardRejected, "env.%s is not configured.", name)
	})

	votesType = openRecordType("votes", types.NewListType(voteType.cel), func(r *record, name string) (any, error) {
		votes := r.env.Votes[name]
		all := make([]any, len(votes))
		for i := range votes {
			all[i] = &record{t: voteType, env: r.env, vote: &votes[i]}
		}
		return all, nil
	})
)

// recordTypes are the types of records by the name of their type.
var recordTypes = func() map[string]*recordType {
	m := map[string]*recordType{}
	for _, t := range []*recordType{actorType, instanceType, lastType, voteType, responseType, undoneType, urlsType, callbackType, varsType, votesType} {
		m[t.cel.TypeName()] = t
	}
	return m
}()

func openRecordType(name string, of *types.Type, get func(*record, string) (any, error)) *recordType {
	t := newRecordType(name, nil, get)
	t.open = func(string) *types.Type { return of }
	return t
}

func present(v any, name string) (any, error) {
	if v == nil {
		return nil, absentError{name}
	}
	return v, nil
}

func textList(texts []string) []any {
	l := make([]any, len(texts))
	for i, s := range texts {
		l[i] = s
	}
	return l
}

// rootValue gives what a name of an expression stands for: a tree, a record, a
// number or a time.
func rootValue(env *Env, name string) (any, bool) {
	switch name {
	case "data":
		if env.Data == nil {
			return map[string]any{}, true
		}
		return env.Data, true
	case "input":
		return env.Input, env.Input != nil
	case "actor":
		return &record{t: actorType, env: env, actor: &env.Actor}, true
	case "instance":
		return &record{t: instanceType, env: env}, true
	case "last":
		return &record{t: lastType, env: env}, true
	case "votes":
		return &record{t: votesType, env: env}, true
	case "open_votes":
		return env.OpenVotes, true
	case "visits":
		return env.Visits, true
	case "result":
		return env.Result, true
	case "response":
		return &record{t: responseType, env: env}, true
	case "undone":
		return &record{t: undoneType, env: env}, true
	case "callback":
		return &record{t: callbackType, env: env}, true
	case "env":
		return &record{t: varsType, env: env}, true
	case "now":
		return env.Now, true
	}
	v, ok := env.Locals[name]
	return v, ok
}

func (r *record) field(name string) (any, error) {
	if r.t.fieldType(name) == nil {
		return nil, absentError{name}
	}
	v, err := r.t.get(r, name)
	if err != nil {
		return nil, err
	}
	return plainToCEL(v, nil), nil
}

func (r *record) hasField(name string) bool {
	if r.t.fieldType(name) == nil {
		return false
	}
	_, err := r.t.get(r, name)
	return err == nil
}

// plainToCEL converts what rootValue and the records give.
func plainToCEL(v any, n *node) ref.Val {
	switch v := v.(type) {
	case int:
		return types.Int(v)
	case time.Time:
		return types.Timestamp{Time: v}
	}
	return toCEL(v, n)
}

// plainToTree turns what rootValue and the records give into a JSON tree.
func plainToTree(v any) any {
	switch v := v.(type) {
	case int:
		return json.Number(strconv.Itoa(v))
	case time.Time:
		return timeText(v)
	case *record:
		return v.tree()
	case []any:
		if len(v) > 0 {
			if _, ok := v[0].(*record); !ok {
				return v
			}
		}
		l := make([]any, len(v))
		for i, e := range v {
			l[i] = plainToTree(e)
		}
		return l
	}
	return v
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (r *record) tree() any {
	m := map[string]any{}
	for _, name := range r.t.names {
		if v, err := r.t.get(r, name); err == nil {
			m[name] = plainToTree(v)
		}
	}
	return m
}

func (r *record) Type() ref.Type                              { return r.t.cel }
func (r *record) Value() any                                  { return r }
func (r *record) Equal(other ref.Val) ref.Val                 { return equalAsTrees(r, other) }
func (r *record) ConvertToNative(t reflect.Type) (any, error) { return nativeOf(r, t) }
func (r *record) ConvertToType(t ref.Type) ref.Val            { return convertType(r, t) }

// typeWords names a type for people.
func typeWords(name string) string {
	switch {
	case name == "int" || name == "uint":
		return "a whole number"
	case name == "double":
		return "a number"
	case name == "string":
		return "a text"
	case name == "bool":
		return "true or false"
	case name == "null_type" || name == "null":
		return "null"
	case strings.HasSuffix(name, "Timestamp") || name == "timestamp":
		return "a time"
	case strings.HasSuffix(name, "Duration") || name == "duration":
		return "a duration"
	case strings.HasPrefix(name, "list"):
		return "a list"
	case strings.HasPrefix(name, "object ") || strings.HasPrefix(name, recordPrefix) || strings.HasPrefix(name, "map"):
		return "an object"
	case strings.HasPrefix(name, "wrapper("):
		return typeWords(strings.TrimSuffix(strings.TrimPrefix(name, "wrapper("), ")"))
	}
	return name
}
