package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write generated files")

// long is a report that is worth cutting: sixty failures with long messages.
func long(checks int) Report {
	rank := 3
	r := Report{Version: "v1", StartTime: "2026-01-02T03:04:05Z", Node: "gpu-17", Pod: "tj-node-0-3-x", Namespace: "ml", Rank: &rank, NNodes: 4}
	for i := range checks {
		finding := found([]Status{StatusPass, StatusWarn, StatusFail}[i%3], Retryable)
		finding.Message, finding.Hint = strings.Repeat("ä", 300), strings.Repeat("\u2028", 100)
		finding.Observed = map[string]string{"a": "b"}
		r.Checks = append(r.Checks, Judged(fmt.Sprintf("check%d", i), finding, CheckPolicy{Exhausted: Fatal}))
	}
	if checks > 2 {
		r.Checks[checks-1].Finding = Finding{Status: StatusFail, Outcome: Fatal, Reason: "Worst", Message: "the worst"}
	}
	r.Conclude(defaults())
	return r
}

func TestTheCompactFormFitsAndKeepsTheWorst(t *testing.T) {
	r := long(60)
	for _, limit := range []int{1200, 2000, 4096} {
		data, err := r.Compact(limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > limit || !utf8.Valid(data) || bytes.Contains(data, []byte("\ufffd")) {
			t.Errorf("%d bytes for a limit of %d: %s", len(data), limit, data)
		}
		compact, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if len(compact.Checks) == 0 || compact.Checks[0].Reason != "Worst" || compact.Omitted != 60-len(compact.Checks) {
			t.Errorf("kept %d, omitted %d, first %+v", len(compact.Checks), compact.Omitted, compact.Checks)
		}
		if compact.Reason != r.Reason || compact.ExitCode != r.ExitCode || *compact.Rank != 3 {
			t.Errorf("the heading has changed: %+v", compact)
		}
	}
	if data, err := r.Compact(10); err == nil {
		t.Errorf("ten bytes hold a report: %s", data)
	}
	if len(r.Checks) != 60 || r.Checks[0].Observed == nil {
		t.Error("the report itself was cut")
	}
}

func TestACompactFormOfGoodNewsIsShort(t *testing.T) {
	r := Report{Version: "v1", StartTime: "2026-01-02T03:04:05Z", Checks: []Check{Judged("gpu", found(StatusPass, Pass), CheckPolicy{})}}
	r.Conclude(defaults())
	data, err := r.Compact(2000)
	if err != nil || len(data) > 500 {
		t.Errorf("%v: %d bytes: %s", err, len(data), data)
	}
}

func TestOtherJSONIsNoReport(t *testing.T) {
	for _, text := range []string{"", "{}", "null", `{"apiVersion":"v1","kind":"Pod"}`, `{"kind":"PreflightReport"}`,
		`{"apiVersion":"` + APIVersion + `","kind":"PreflightReport","outcome":"Great"}`, `{"apiVersion":"` + APIVersion + `"`} {
		if r, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is taken for %+v", text, r)
		}
	}
}

// published is the copy for those who do not run the binary.
const published = "../../../docs/preflight-report.schema.json"

func TestTheSchemaIsGeneratedFromTheTypes(t *testing.T) {
	// Newer versions of the binary may say more: unknown fields are allowed.
	reflector := invopop.Reflector{ExpandedStruct: true, AllowAdditionalProperties: true, Anonymous: true}
	if err := reflector.AddGoComments("github.com/trainjob/controller/pkg/preflight/report", "./"); err != nil {
		t.Fatal(err)
	}
	schema := reflector.Reflect(&Report{})
	schema.Title = "PreflightReport"
	data, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	data = append(data, '\n')
	for _, path := range []string{"report.schema.json", published} {
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if written, err := os.ReadFile(path); err != nil || !bytes.Equal(written, data) {
			t.Errorf("%v: %s is not what the types say; go test ./pkg/preflight/report -update writes it", err, path)
		}
	}
}

func TestReportsFitTheirSchema(t *testing.T) {
	schema := compiled(t)
	reports := map[string]Report{"long": long(60), "none": long(0)}
	for name, r := range reports {
		if r.Checks == nil {
			r.Checks = []Check{}
		}
		full, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		compact, err := r.Compact(2000)
		if err != nil {
			t.Fatal(err)
		}
		for form, data := range map[string][]byte{"full": full, "compact": compact} {
			if err := valid(schema, data); err != nil {
				t.Errorf("%s %s: %v", form, name, err)
			}
		}
	}
}

func TestTheSchemaRefusesWhatIsNone(t *testing.T) {
	schema := compiled(t)
	good, err := json.Marshal(long(3))
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"exitCode":30`:             `"exitCode":1`,
		`"outcome":"Fatal"`:         `"outcome":"Bad"`,
		`"reason":"Worst"`:          `"reason":"not camel"`,
		`"kind":"PreflightReport"`:  `"kind":"Pod"`,
		`"attempt":1`:               `"attempt":0`,
		`"durationMs":0,"attempt"`:  `"attempt"`,
		`"startTime":"2026-01-02T0`: `"startTime":"yesterday `,
	} {
		bad := strings.ReplaceAll(string(good), from, to)
		if bad == string(good) {
			t.Fatalf("%s is not in %s", from, good)
		}
		if valid(schema, []byte(bad)) == nil {
			t.Errorf("%s is accepted", to)
		}
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("report.json", document); err != nil {
		t.Fatal(err)
	}
	return compiler.MustCompile("report.json")
}

func valid(schema *jsonschema.Schema, data []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return err
	}
	return schema.Validate(document)
}
