package approval

import "strings"

func init() {
	samples["kid"] = `
name: kid
version: 1
title: Kid
initial: open
data:
  type: object
  required: [n]
  properties: {n: {type: integer, minimum: 0}}
states:
  open:
    owner: ["group:risk"]
    deadlines: [{after: P90D, fire: expire}]
    events:
      well: {to: good, by: [owner, "role:operator"]}
      badly: {to: bad, by: [owner, "role:operator"]}
      expire: {to: bad, by: [timer]}
  good: {final: true}
  bad: {final: failed}
`
	// a kid that is over as soon as it begins
	samples["moth"] = `
name: moth
version: 1
title: Moth
initial: choose
data:
  type: object
  required: [n]
  properties: {n: {type: integer}}
states:
  choose: {choose: [{when: data.n >= 0, to: good}, {to: bad}]}
  good: {final: true}
  bad: {final: failed}
`
	samples["keyed-kid"] = strings.NewReplacer("name: kid", "name: keyed-kid", "initial: open", "initial: open\nkey: string(data.n)").Replace(samples["kid"])
	samples["family"] = `
name: family
version: 1
title: Family
initial: open
data:
  type: object
  required: [list]
  properties:
    list: {type: array, items: {type: integer}}
    made: {type: array, items: {type: object}}
states:
  open:
    owner: [requester]
    deadlines: [{after: P90D, fire: give_up}]
    events:
      go: {to: waiting, by: [requester]}
      give_up: {to: failed, by: [timer]}
  waiting:
    owner: ["role:operator"]
    enter: [spread]
    deadlines: [{after: P90D, fire: give_up}]
    events:
      ready: {to: done, by: [effect]}
      give_up: {to: failed, by: [timer, effect, "role:operator"]}
  done: {final: true}
  failed: {final: failed}
effects:
  spread:
    start: {definition: kid, for_each: data.list, as: item, data: {n: item}, wait: all}
    reversible: false
    on_success: {fire: ready, set: {made: result}}
    on_failure: {fire: give_up}
`
	for name, change := range map[string][2]string{
		"moths":         {"definition: kid", "definition: moth"},
		"family-any":    {"wait: all", "wait: any"},
		"family-two":    {"wait: all", "wait: 2"},
		"family-loose":  {"wait: all", "detach: true"},
		"family-keyed":  {"definition: kid", "definition: keyed-kid"},
		"family-absent": {"definition: kid", "definition: stranger"},
		"dynasty":       {"definition: kid, for_each: data.list, as: item, data: {n: item}", "definition: family, for_each: data.list, as: item, data: {list: '[1, 2]'}"},
	} {
		text := replaced(samples["family"], change[0], change[1])
		samples[name] = replaced(text, "name: family", "name: "+name)
	}
	for _, name := range []string{"absent", "keyed"} { // what fails leaves the wait as it is
		patient := replaced(samples["family-"+name], "    on_failure: {fire: give_up}\n", "")
		patient = replaced(patient, `[timer, effect, "role:operator"]`, `[timer, "role:operator"]`)
		samples["patient-"+name] = replaced(patient, "name: family-"+name, "name: patient-"+name)
	}
}
