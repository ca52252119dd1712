package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trainjob/controller/test/cluster"
	"github.com/trainjob/controller/test/harness"
)

func TestShippedRolesLetNobodyReadSecrets(t *testing.T) {
	grants, err := readRoles(filepath.Join(harness.SourceDir(), "artifacts", "rbac"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, g := range grants {
		if g.resource == "secrets" {
			got[strings.TrimSpace(g.verb+" "+g.namespace+" "+g.name)] = true
		}
	}
	want := map[string]bool{
		"create": true,
		"get trainjob-system trainjob-controller-webhook-cert":    true,
		"update trainjob-system trainjob-controller-webhook-cert": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rights on Secrets (-want +got):\n%s", diff)
	}
}

func TestRightsAreCompared(t *testing.T) {
	read := grant{verb: "get", resource: "configmaps", role: "ClusterRole c"}
	lease := grant{verb: "update", group: "coordination.k8s.io", resource: "leases", name: "one", namespace: "system", role: "Role system/r"}
	gone := exception{verb: "get", resource: "configmaps", reason: "because"}
	for name, test := range map[string]struct {
		granted    []grant
		used       []harness.Right
		exceptions []exception
		want       []string
	}{
		"a right that is used is fine": {
			granted: []grant{read}, used: []harness.Right{{Verb: "get", Resource: "configmaps"}},
		},
		"a right that is not used is named": {
			granted: []grant{read}, used: []harness.Right{{Verb: "list", Resource: "configmaps"}},
			want: []string{`ClusterRole c: get configmaps of "" is never used`},
		},
		"an exception may be unused": {granted: []grant{read}, exceptions: []exception{gone}},
		"an exception that is used is out of date": {
			granted: []grant{read}, used: []harness.Right{{Verb: "get", Resource: "configmaps"}}, exceptions: []exception{gone},
			want: []string{`get configmaps of "" is an exception in test/rights, but it is used`},
		},
		"another name or namespace does not count": {
			granted: []grant{lease},
			used: []harness.Right{
				{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "system", Name: "two"},
				{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "one"},
			},
			want: []string{`Role system/r: update leases of "coordination.k8s.io" named one is never used`},
		},
		"the same name in its namespace counts": {
			granted: []grant{lease},
			used:    []harness.Right{{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "system", Name: "one"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range compare(test.granted, test.used, test.exceptions) {
				got = append(got, err.Error())
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %q", got, test.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], test.want[i]) {
					t.Errorf("got %q, want %q…", got[i], test.want[i])
				}
			}
		})
	}
}

func TestUsedRightsSurviveTheirFile(t *testing.T) {
	events := []cluster.AuditEvent{
		{Verb: "patch", Group: "trainer.kubeflow.org", Resource: "trainjobs", Subresource: "status", Namespace: "ns", Name: "job", Code: 200},
		{Verb: "patch", Group: "trainer.kubeflow.org", Resource: "trainjobs", Subresource: "status", Namespace: "other", Name: "job", Code: 409},
		{Verb: "get", Resource: "secrets", Namespace: harness.SystemNamespace, Name: "s", Code: 404},
		{Verb: "list", Resource: "secrets", Code: 403},
		{Verb: "get", RequestURI: "/version", Code: 200},
	}
	want := []harness.Right{
		{Verb: "get", Resource: "secrets", Namespace: harness.SystemNamespace, Name: "s"},
		{Verb: "patch", Group: "trainer.kubeflow.org", Resource: "trainjobs/status"},
	}
	got, err := harness.ParseRights(bytes.NewReader(harness.FormatRights(harness.UsedRights(events))))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
