package fsm_test

import (
	"fmt"
	"strings"
)

// subject is a definition of the examples and processes with data to start from.
// Keys that are not supported yet are stripped by replacing text.
type subject struct {
	file    string
	src     string // instead of a file's text
	strip   [][2]string
	starts  []string
	results map[string][]string // by effect
}

var noIn = [2]string{`\{in: \[[a-z_, ]+\], `, `{`}

var subjects = []subject{
	{file: "agent-action.v1.yaml", starts: []string{
		`{"agent":"a","tool":"t","arguments":{"x":1},"risk":"high","confidence":0.5}`,
		`{"agent":"a","tool":"t","arguments":{},"risk":"low","confidence":0.95}`,
	}},
	{file: "onboarding.v1.yaml", starts: []string{onboardingData}},
	{
		file: "onboarding.v2.yaml", starts: []string{
			`{"applicant":{"name":"Ada","email":"ada@example.org"},"amount":500}`,
			`{"applicant":{"name":"Ada","email":"ada@example.org"},"amount":50}`,
		},
		results: map[string][]string{"create_account": {`{"id":"acc-1"}`, `{}`}},
	},
	{file: "parent", src: parent, starts: []string{parentData}, results: map[string][]string{"fetch": {`[]`, `[{"id":"1"},{"id":"2"}]`}}},
	{file: "report-part.v1.yaml", starts: []string{`{"region":"north","month":"2026-11"}`}},
	{
		file:    "report.v1.yaml",
		starts:  []string{`{"month":"2026-11","regions":["north","south"]}`},
		results: map[string][]string{"fetch": {`{"n":1}`, `[1]`}, "write_parts": {`[{"text":"a"}]`}},
	},
	{
		file: "supplier.v1.yaml", starts: []string{supplierData, `{"name":"A","tax_id":"B99","email":"a@example.org","yearly":5}`},
		results: map[string][]string{"create_vendor": {`{"id":"V-1"}`}},
	},
	{
		file: "01-purchase-order.yaml", starts: []string{
			`{"po_number":"PO-000001","cost_centre":"1000","currency":"EUR","vendor":{"name":"V"},"lines":[{"text":"a","qty":1,"cents":1000}]}`,
			`{"po_number":"PO-000002","cost_centre":"1000","currency":"EUR","vendor":{"name":"V"},"lines":[{"text":"a","qty":1,"cents":900000}]}`,
			`{"po_number":"PO-000003","cost_centre":"1000","currency":"EUR","vendor":{"name":"V"},"lines":[{"text":"a","qty":9,"cents":900000}]}`,
		},
		results: map[string][]string{
			"find_approver": {`{"id":"p3@example.com","limit_cents":99999999}`, `{"id":"p4@example.com","limit_cents":10}`, `{"id":"p1@example.com","limit_cents":99999999}`},
			"create_po":     {`{"id":"ERP-1"}`},
		},
	},
	{
		file: "02-leave-request.yaml", strip: [][2]string{noIn, {`"double\(workdays.*"`, `"5.0"`}}, starts: []string{
			`{"from":"2027-01-10","to":"2027-01-14","kind":"holiday","substitute":"p2@example.com"}`,
			`{"from":"2026-12-20","to":"2027-01-14","kind":"medical","substitute":"p3@example.com"}`,
		},
		results: map[string][]string{"read_balance": {`{"days":20.5,"manager":"p4@example.com"}`, `{"days":1,"manager":"p4@example.com"}`}, "book": {`{"id":"b1"}`}},
	},
	{
		file: "03-employee-onboarding.yaml", strip: [][2]string{{`(?s)    task:\n(      - \{for[^\n]*\n)+`, ""}}, starts: []string{
			`{"employee_no":"7","name":"N","email":"new@example.org","manager":"p4@example.com","first_day":"2026-12-10"}`,
		},
		results: map[string][]string{"create_account": {`{"id":"a"}`}, "create_badge": {`{"id":"b"}`}},
	},
	{
		file: "04-kyc.yaml", starts: []string{
			`{"customer":{"id":"c1","name":"C","email":"cust@example.org"},"country":"ES","missing":["address_proof"]}`,
			`{"customer":{"id":"c1","name":"C","email":"cust@example.org"},"country":"ES","missing":["passport","source_of_funds"]}`,
			`{"customer":{"id":"c1","name":"C","email":"cust@example.org"},"country":"ES","missing":[],"passport_expires":"2027-06-01"}`,
		},
		results: map[string][]string{"screen": {`{"hits":[]}`, `{"hits":[1]}`}},
	},
	{file: "05-change-request.yaml", strip: [][2]string{noIn, {`, unreachable: undecided`, ""}}, starts: []string{
		changeData("normal", 3), changeData("standard", 1), changeData("emergency", 5),
	}},
	{file: "06-access-request.yaml", strip: [][2]string{noIn}, starts: []string{
		`{"person":"p2@example.com","resource":"db","level":"read","until":"2027-01-20T10:00:00Z","reason":"to do my work"}`,
		`{"person":"p2@example.com","resource":"db","level":"admin","until":"2026-12-01T10:00:00Z","reason":"to do my work"}`,
	}},
	{
		file: "07-contract-signature.yaml", starts: []string{
			`{"contract_no":"1","signers":[{"name":"S","email":"s1@example.org"},{"name":"T","email":"s2@example.org"}],"signatory":"p3@example.com","valid_until":"2026-12-30"}`,
			`{"contract_no":"1","signers":[{"name":"S","email":"s1@example.org"}],"signatory":"p3@example.com","valid_until":"2026-12-20"}`,
		},
		results: map[string][]string{"open_envelope": {`{"id":"env-1"}`}},
	},
	{
		file: "08-expense-claim.yaml", starts: []string{
			`{"cost_centre":"1000","currency":"EUR","lines":[{"id":"1","day":"2026-11-20","kind":"meal","cents":2000},{"id":"2","day":"2026-11-21","kind":"meal","cents":1000}]}`,
			`{"cost_centre":"1000","currency":"EUR","lines":[{"id":"1","day":"2026-11-20","kind":"hotel","cents":200000}],"receipts":{"name":"r"}}`,
		},
		results: map[string][]string{"pay": {`{"id":"pay-1","total_cents":3000}`}},
	},
	{file: "09-agent-mailing.yaml", strip: [][2]string{noIn}, starts: []string{mailingData(10), mailingData(5000)}},
	{file: "10-postmortem-action.yaml", strip: [][2]string{noIn}, starts: []string{
		`{"incident":"i","title":"T","assignee":"p2@example.com","severity":1,"due":"2026-12-20T10:00:00Z"}`,
	}},
}

func changeData(kind string, risk int) string {
	return fmt.Sprintf(`{"summary":"s","kind":%q,"services":["web","db"],"risk":%d,"plan":"p","rollback":"r","window":{"from":"2026-12-06T10:00:00Z","to":"2026-12-06T12:00:00Z"}}`, kind, risk)
}

func mailingData(count int) string {
	return fmt.Sprintf(`{"agent":"a","purpose":"p","template":{"subject":"s","body":"b"},"template_sha256":%q,"recipients":{"count":%d,"uri":"mem://r","sha256":"x"},"stages":[10,20],"samples":[%s]}`,
		strings.Repeat("ab", 32), count, strings.Repeat(`{"to":"x@example.com","subject":"s","body":"b"},`, 3)[:3*48-1])
}
