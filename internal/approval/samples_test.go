package approval

// samples are definitions that put one thing to the proof each.
var samples = map[string]string{
	// a deadline that its own limits refuse
	"short-lived": `
name: short-lived
version: 1
title: Short-lived
initial: waiting
limits: {transitions: 2}
states:
  waiting:
    owner: ["group:risk"]
    deadlines: [{after: PT1H, fire: expire}]
    events:
      note: {to: stay, by: [owner], comment: optional}
      done: {to: done, by: [owner]}
      expire: {to: done, by: [timer]}
  done: {final: true}
`,
	// every way to decide: form, check, guard, comment, document, stay, callback
	"review": `
name: review
version: 1
title: Review
initial: open
data:
  type: object
  required: [title, amount]
  properties:
    title: {type: string}
    amount: {type: number}
    limit: {type: integer}
    ready: {type: boolean, default: false}
    contract: {type: object}
states:
  open:
    owner: ["group:risk"]
    enter: [ask_system]
    task: {title: "Review {{ data.title }}", show: [data.title, data.amount]}
    deadlines:
      - {after: P1D, remind: owner}
      - {after: P3D, fire: expire}
    events:
      approve:
        to: approved
        by: [owner]
        not: [requester]
        form: {type: object, required: [limit], properties: {limit: {type: integer, minimum: 1}}}
        check: [{that: input.limit <= data.amount, say: "Not above the amount asked for", at: /limit}]
        set: {limit: input.limit}
      pay: {to: approved, by: [owner], when: data.ready}
      reject: {to: rejected, by: [owner], comment: required}
      attach: {to: approved, by: [owner], documents: {contract: required}}
      ask: {to: stay, by: [owner], comment: required}
      revise:
        to: stay
        by: [owner, "role:operator"]
        form: {type: object, required: [title], properties: {title: {type: string}}}
        set: {title: input.title}
      signed: {to: approved, by: ["system:esign"]}
      pinged: {to: stay, by: ["system:esign"]}
      expire: {to: expired, by: [timer]}
  approved: {final: true}
  rejected: {final: true, enter: [tell]}
  expired: {final: true}
effects:
  ask_system:
    webhook: {url: "{{ env.ESIGN_URL }}/envelopes", body: {notify: "{{ callback.url }}"}}
    callback: {events: [signed, pinged], as: "system:esign"}
    idempotent: true
    reversible: false
  tell:
    email: {to: [requester], subject: "Rejected: {{ data.title }}", body: "{{ last.comment }}"}
    reversible: false
`,
	// one of several decides, each outcome with an effect of its own, one deadline
	"duel": `
name: duel
version: 1
title: Duel
initial: open
data: {type: object, required: [title], properties: {title: {type: string}}}
states:
  open:
    owner: ["group:risk"]
    task: {title: "{{ data.title }}"}
    deadlines: [{after: PT1H, fire: expire}]
    events:
      approve: {to: approved, by: [owner], not: [requester]}
      reject: {to: rejected, by: [owner]}
      expire: {to: expired, by: [timer]}
  approved: {final: true, enter: [tell_approved]}
  rejected: {final: true, enter: [tell_rejected]}
  expired: {final: true, enter: [tell_expired]}
effects:
  tell_approved: {email: {to: [requester], subject: "Approved", body: "yes"}, reversible: false}
  tell_rejected: {email: {to: [requester], subject: "Rejected", body: "no"}, reversible: false}
  tell_expired: {email: {to: [requester], subject: "Expired", body: "too late"}, reversible: false}
`,
	// two of three
	"board": `
name: board
version: 1
title: Board
initial: open
data: {type: object, required: [title], properties: {title: {type: string}}}
states:
  open:
    owner: ["group:risk", "group:legal"]
    task: {title: "{{ data.title }}"}
    deadlines:
      - {after: P1D, remind: owner, every: P1D, times: 3}
      - {after: P9D, fire: expire}
    events:
      approve: {to: approved, by: [owner], not: [requester], quorum: 2, form: {type: object, properties: {note: {type: string}}}}
      reject: {to: rejected, by: [owner]}
      expire: {to: expired, by: [timer]}
  approved: {final: true, enter: [tell]}
  rejected: {final: true}
  expired: {final: true}
effects:
  tell: {email: {to: [requester], subject: "Approved", body: "yes"}, reversible: false}
`,
	// three things are made one after another, then undone newest first
	"orders": `
name: orders
version: 1
title: Orders
initial: open
data:
  type: object
  required: [title]
  properties: {title: {type: string}, third: {type: string}}
states:
  open:
    owner: [requester]
    deadlines: [{after: P9D, fire: expire}]
    events:
      go: {to: first, by: [requester]}
      expire: {to: failed, by: [timer]}
  first:
    owner: ["role:operator"]
    enter: [make_a]
    deadlines: [{after: P9D, fire: give_up}]
    events:
      next: {to: second, by: [effect]}
      give_up: {to: failed, by: [timer, effect], compensate: true}
  second:
    owner: ["role:operator"]
    enter: [make_b]
    deadlines: [{after: P9D, fire: give_up}]
    events:
      next: {to: third, by: [effect]}
      give_up: {to: failed, by: [timer, effect], compensate: true}
  third:
    owner: ["role:operator"]
    enter: [make_c]
    deadlines: [{after: P9D, fire: give_up}]
    events:
      next: {to: done, by: [effect]}
      give_up: {to: failed, by: [timer, effect], compensate: true}
  done: {final: true}
  failed: {final: failed}
effects:
  make_a:
    webhook: {url: "{{ env.CORE_URL }}/a", body: {title: "{{ data.title }}"}}
    idempotent: true
    reversible: true
    compensate: undo_a
    on_success: {fire: next}
    on_failure: {fire: give_up}
  make_b:
    webhook: {url: "{{ env.CORE_URL }}/b"}
    idempotent: true
    reversible: true
    compensate: undo_b
    on_success: {fire: next}
    on_failure: {fire: give_up}
  make_c:
    webhook: {url: "{{ env.CORE_URL }}/c"}
    idempotent: false
    reversible: false
    retry: {attempts: 3, first: PT20S, max: PT1M}
    on_success: {fire: next, set: {third: result.id}}
    on_failure: {fire: give_up}
  undo_a: {webhook: {url: "{{ env.CORE_URL }}/a/undo"}, idempotent: true, reversible: false, retry: {attempts: 2, first: PT20S, max: PT20S}}
  undo_b: {webhook: {url: "{{ env.CORE_URL }}/b/undo"}, idempotent: true, reversible: false, retry: {attempts: 2, first: PT20S, max: PT20S}}
`,
	// effects whose outcome the instance need not hear of, and one that it keeps
	"notes": `
name: notes
version: 1
title: Notes
initial: open
data: {type: object, required: [title], properties: {title: {type: string}}}
states:
  open:
    owner: [requester]
    enter: [note, once]
    deadlines: [{after: P9D, fire: expire}]
    events:
      close: {to: closed, by: [requester]}
      expire: {to: closed, by: [timer]}
  closed: {final: true}
effects:
  note:
    webhook: {url: "{{ env.CORE_URL }}/note", body: {title: "{{ data.title }}"}}
    idempotent: true
    reversible: true
    compensate: unnote
    retry: {attempts: 5, first: PT30S, max: PT1M}
  once: {webhook: {url: "{{ env.CORE_URL }}/once"}, idempotent: false, reversible: false}
  unnote: {webhook: {url: "{{ env.CORE_URL }}/unnote"}, idempotent: true, reversible: false}
`,
	// numbers that no float can carry
	"digits": `
name: digits
version: 1
title: Digits
initial: open
data:
  type: object
  properties:
    id: {type: integer}
    n: {type: integer}
    u: {type: integer}
    d: {type: number}
    z: {type: number}
states:
  open:
    owner: [requester]
    task: {title: "Number {{ data.n }}", show: [data.n, data.u, data.id]}
    enter: [send]
    deadlines: [{after: P9D, fire: expire}]
    events:
      above: {to: closed, by: [requester], when: data.n > 9007199254740992}
      equal: {to: closed, by: [requester], when: data.n == 9007199254740992}
      keep:
        to: stay
        by: [requester]
        form: {type: object, required: [n], properties: {n: {type: integer}}}
        set: {n: input.n}
      expire: {to: closed, by: [timer]}
  closed: {final: true}
effects:
  send:
    webhook: {url: "{{ env.CORE_URL }}/numbers", body: {id: "{{ data.id }}", n: "{{ data.n }}", u: "{{ data.u }}", d: "{{ data.d }}"}}
    idempotent: true
    reversible: false
`,
	// a daily reminder before a late end
	"daily": `
name: daily
version: 1
title: Daily
initial: open
data: {type: object, required: [title], properties: {title: {type: string}}}
states:
  open:
    owner: ["group:risk"]
    task: {title: "{{ data.title }}"}
    deadlines:
      - {after: P1D, remind: owner, every: P1D, times: 30}
      - {after: P40D, fire: expire}
    events:
      approve: {to: closed, by: [owner]}
      reject: {to: closed, by: [owner]}
      expire: {to: closed, by: [timer]}
  closed: {final: true}
`,
	"parcel": parcelSample, // calls of a webhook source, see hooks_test.go
}
