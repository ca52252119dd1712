package main

import (
	"log/slog"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// Each line of a series is: metric, values minute by minute in the notation of
// promtool. J stands for the label that the ServiceMonitor sets, C for the prefix of the
// controller's metrics.
var alertCases = map[string]struct {
	quiet, fires string
	summary      string            // of what fires
	also         map[string]string // other series that fire, and their summaries
}{
	"TrainJobControllerDown": {
		quiet: `up{J,instance="a"} 0x60
			up{J,instance="b"} 1x60`,
		fires:   `up{J,instance="a"} 1x10 0x60`,
		summary: "No replica of the TrainJob controller answers",
	},
	"TrainJobControllerReplicaDown": {
		quiet:   `up{J,instance="a"} 1x20 0x5 1x60`,
		fires:   `up{J,instance="a"} 1x20 0x60`,
		summary: "A replica of the TrainJob controller does not answer",
	},
	"TrainJobControllerNoLeader": {
		quiet: `Cleader{J,instance="a"} 1x20 0x60
			Cleader{J,instance="b"} 0x21 1x60`,
		fires: `Cleader{J,instance="a"} 1x20 0x60
			Cleader{J,instance="b"} 0x60`,
		summary: "No replica of the TrainJob controller works",
	},
	"TrainJobControllerTwoLeaders": {
		quiet: `Cleader{J,instance="a"} 1x20 0x60
			Cleader{J,instance="b"} 0x19 1x60`,
		fires: `Cleader{J,instance="a"} 1x60
			Cleader{J,instance="b"} 0x19 1x60`,
		summary: "2 replicas of the TrainJob controller work at the same time",
	},
	"TrainJobControllerRestarts": {
		quiet:   `process_start_time_seconds{J,instance="a"} 100x20 2000x20 3000x20`,
		fires:   `process_start_time_seconds{J,instance="a"} 100x40 2000 2100 2200 2300 2400x20`,
		summary: "The TrainJob controller restarts again and again",
	},
	"TrainJobControllerPanics": {
		quiet:   `Csync_panics_total{J,queue="jobset"} 3x60`,
		fires:   `Csync_panics_total{J,queue="jobset"} 0x50 1x10`,
		summary: "The TrainJob controller panics in queue jobset",
	},
	"TrainJobSyncErrors": {
		quiet: `Csync_duration_seconds_count{J,queue="jobset",result="success"} 0+100x60
			Csync_duration_seconds_count{J,queue="jobset",result="conflict"} 0+100x60
			Csync_duration_seconds_count{J,queue="jobset",result="error"} 0+10x60`,
		fires: `Csync_duration_seconds_count{J,queue="jobset",result="success"} 0+100x60
			Csync_duration_seconds_count{J,queue="jobset",result="error"} 0+20x60`,
		summary: "Syncs of queue jobset fail",
	},
	"TrainJobQueueBacklog": {
		quiet:   `workqueue_depth{J,name="jobset"} 0 5000x5 0x5 900x12 0 900x12 10x60`,
		fires:   `workqueue_depth{J,name="jobset"} 60x60`,
		summary: "Queue jobset is not worked off",
	},
	"TrainJobQueueSlow": {
		quiet: `workqueue_queue_duration_seconds_bucket{J,name="jobset",le="1"} 0+95x60
			workqueue_queue_duration_seconds_bucket{J,name="jobset",le="10"} 0+100x60
			workqueue_queue_duration_seconds_bucket{J,name="jobset",le="+Inf"} 0+100x60`,
		fires: `workqueue_queue_duration_seconds_bucket{J,name="jobset",le="1"} 0+70x60
			workqueue_queue_duration_seconds_bucket{J,name="jobset",le="10"} 0+95x60
			workqueue_queue_duration_seconds_bucket{J,name="jobset",le="+Inf"} 0+100x60`,
		summary: "TrainJobs wait long in queue jobset",
	},
	"TrainJobWorkerStuck": {
		quiet:   `workqueue_longest_running_processor_seconds{J,name="jobset"} 100x60`,
		fires:   `workqueue_longest_running_processor_seconds{J,name="jobset"} 0x50 60 120 180 240x10`,
		summary: "A worker of queue jobset is stuck",
	},
	"TrainJobWritesFail": {
		quiet: `Capi_writes_total{J,verb="create",resource="jobsets",code="201"} 0+100x60
			Capi_writes_total{J,verb="create",resource="jobsets",code="409"} 0+100x60
			Capi_writes_total{J,verb="create",resource="jobsets",code="403"} 0+100x60
			Capi_writes_total{J,verb="create",resource="jobsets",code="500"} 0+10x60`,
		fires: `Capi_writes_total{J,verb="create",resource="jobsets",code="201"} 0+100x60
			Capi_writes_total{J,verb="create",resource="jobsets",code="none"} 0+10x60
			Capi_writes_total{J,verb="update",resource="jobsets",code="503"} 0+10x60`,
		summary: "The API server does not take writes of jobsets",
	},
	"TrainJobWritesRefused": {
		quiet: `Capi_writes_total{J,verb="patch",resource="trainjobs/status",code="409"} 0+10x60
			Capi_writes_total{J,verb="create",resource="jobsets",code="403"} 0+10x60
			Capi_writes_total{J,verb="create",resource="secrets",code="403"} 0+10x60
			Capi_writes_total{J,verb="create",resource="secrets",code="409"} 0+10x60`,
		fires: `Capi_writes_total{J,verb="patch",resource="trainjobs/status",code="403"} 0+10x60`,
		also: map[string]string{
			`Capi_writes_total{J,verb="update",resource="secrets",code="403"} 0+10x60`:                        "The API server refuses writes of secrets with 403",
			`Capi_writes_total{J,verb="patch",resource="mutatingwebhookconfigurations",code="403"} 0+10x60`:   "The API server refuses writes of mutatingwebhookconfigurations with 403",
			`Capi_writes_total{J,verb="patch",resource="validatingwebhookconfigurations",code="422"} 0+10x60`: "The API server refuses writes of validatingwebhookconfigurations with 422",
		},
		summary: "The API server refuses writes of trainjobs/status with 403",
	},
	"TrainJobDeadlineLate": {
		quiet: lateness("deadline", "0+10x60") + `
			Ctimer_overdue_longest_seconds{J,timer="deadline"} 20x60
			Ctimer_overdue_longest_seconds{J,timer="ttl"} 9000x60` + newPod("deadline", "10x19"),
		fires: lateness("deadline", "0x60"),
		also: map[string]string{
			newPod("deadline", "0x19"):                                        "TrainJobs are failed long after their deadline",
			`Ctimer_overdue_longest_seconds{J,timer="deadline"} 0x40 0+60x19`: "TrainJobs are failed long after their deadline",
		},
		summary: "TrainJobs are failed long after their deadline",
	},
	"TrainJobTTLLate": {
		quiet: lateness("ttl", "0+10x60") + `
			Ctimer_overdue_longest_seconds{J,timer="ttl"} 200x60
			Ctimer_overdue_longest_seconds{J,timer="deadline"} 9000x60` + newPod("ttl", "10x19"),
		fires: lateness("ttl", "0x60"),
		also: map[string]string{
			newPod("ttl", "0x19"): "Finished TrainJobs are deleted long after their time",
			`Ctimer_overdue_longest_seconds{J,timer="ttl"} 0x40 0+60x19`: "Finished TrainJobs are deleted long after their time",
		},
		summary: "Finished TrainJobs are deleted long after their time",
	},
	"TrainJobsBlocked": {
		quiet: `Ctrainjobs_pending_longest_seconds{J,reason="WaitingForRuntime"} 0+60x25 0x35
			Ctrainjobs_pending_longest_seconds{J,reason="WaitingForPods"} 0+60x60
			Ctrainjobs_pending_longest_seconds{J,reason="CreationFailed"} 0x40 9000x3 0x16`,
		fires:   `Ctrainjobs_pending_longest_seconds{J,reason="WaitingForRuntime"} 0+60x60`,
		summary: "TrainJobs are blocked: WaitingForRuntime",
	},
	"TrainJobsWaitForPods": {
		quiet:   `Ctrainjobs_pending_longest_seconds{J,reason="WaitingForPods"} 0+60x60`,
		fires:   `Ctrainjobs_pending_longest_seconds{J,reason="WaitingForPods"} 20000+60x60`,
		summary: "A TrainJob has waited for its pods for hours",
	},
	"TrainJobsStartSlowly": {
		quiet: `Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="10"} 0+60x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="60"} 0+100x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="+Inf"} 0+100x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="true",le="10"} 0x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="true",le="+Inf"} 0+100x60`,
		fires: `Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="10"} 0+40x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="60"} 0+100x60
			Ctrainjob_jobset_delay_seconds_bucket{J,queued="false",le="+Inf"} 0+100x60`,
		summary: "TrainJobs get their JobSets late",
	},
	"TrainJobWebhookErrors": {
		quiet: `Cwebhook_request_duration_seconds_count{J,path="/p",result="allowed"} 0+100x60
			Cwebhook_request_duration_seconds_count{J,path="/p",result="malformed"} 0+100x60
			Cwebhook_request_duration_seconds_count{J,path="/p",result="refused"} 0+100x60`,
		fires: `Cwebhook_request_duration_seconds_count{J,path="/p",result="allowed"} 0+90x60
			Cwebhook_request_duration_seconds_count{J,path="/p",result="error"} 0+10x60`,
		summary: "The admission webhook gives no verdict on /p",
	},
	"TrainJobWebhookSlow": {
		quiet: `Cwebhook_request_duration_seconds_bucket{J,path="/p",result="allowed",le="0.512"} 0+100x60
			Cwebhook_request_duration_seconds_bucket{J,path="/p",result="allowed",le="+Inf"} 0+100x60`,
		fires: `Cwebhook_request_duration_seconds_bucket{J,path="/p",result="allowed",le="0.512"} 0+90x60
			Cwebhook_request_duration_seconds_bucket{J,path="/p",result="allowed",le="2.048"} 0+100x60
			Cwebhook_request_duration_seconds_bucket{J,path="/p",result="allowed",le="+Inf"} 0+100x60`,
		summary: "The admission webhook is slow on /p",
	},
	"TrainJobWebhookCertificateExpires": {
		quiet:   `Cwebhook_certificate_expiration_timestamp_seconds{J,instance="a"} 700000x60`,
		fires:   `Cwebhook_certificate_expiration_timestamp_seconds{J,instance="a"} 600000x60`,
		summary: "The certificate of the admission webhook expires",
	},
}

// lateness is a histogram that grows by some a minute, all of them within two seconds or
// all of them within an hour.
func lateness(timer, within2s string) string {
	bucket := `C` + timer + `_lateness_seconds_bucket{J,le=`
	return bucket + `"2"} ` + within2s + "\n" + bucket + `"3600"} 0+10x60` + "\n" + bucket + `"+Inf"} 0+10x60`
}

// newPod is the same histogram of a pod that is scraped first after forty minutes, when
// it has counted already and counts nothing more.
func newPod(timer, within2s string) string {
	bucket := "\nC" + timer + `_lateness_seconds_bucket{J,instance="new",le=`
	return bucket + `"2"} _x40 ` + within2s + bucket + `"3600"} _x40 10x19` + bucket + `"+Inf"} _x40 10x19`
}

// firing evaluates an alert minute by minute over an hour of series and returns what it
// tells at the end, and how many minutes it has told anything.
func firing(t *testing.T, rule rulefmt.Rule, series string) (told []string, minutes int) {
	t.Helper()
	input := "load 1m\n"
	for line := range strings.Lines(strings.TrimSpace(series)) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "{J,", `{job="trainjob-controller",`)
		if rest, ours := strings.CutPrefix(line, "C"); ours {
			line = "trainjob_controller_" + rest
		}
		input += "  " + line + "\n"
	}
	store := promqltest.LoadedStorage(t, input)
	engine := promqltest.NewTestEngine(t, false, 0, 100000)
	expr, err := parse(rule.Expr)
	if err != nil {
		t.Fatal(err)
	}
	alert := rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), 0, labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations),
		labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	for minute := range 60 {
		told = nil
		at := time.Unix(int64(minute)*60, 0)
		if _, err := alert.Eval(t.Context(), 0, at, rules.EngineQueryFunc(engine, store), &url.URL{}, 0); err != nil {
			t.Fatal(err)
		}
		for _, active := range alert.ActiveAlerts() {
			if active.State != rules.StateFiring {
				continue
			}
			told = append(told, active.Annotations.Get("summary"))
			if text := active.Annotations.Get("summary") + active.Annotations.Get("description"); strings.Contains(text, "error expanding template") {
				t.Error(text)
			}
		}
		if told != nil {
			minutes++
		}
	}
	return told, minutes
}

func TestAlertsFireWhenTheyMustAndOnlyThen(t *testing.T) {
	all, err := readRules(in("artifacts", "monitoring", "prometheus-rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range all {
		t.Run(rule.Alert, func(t *testing.T) {
			tc, found := alertCases[rule.Alert]
			if !found {
				t.Fatal("there is no case for this alert")
			}
			if told, minutes := firing(t, rule, tc.quiet); minutes > 0 {
				t.Errorf("fires without need for %d minutes: %v", minutes, told)
			}
			all := map[string]string{tc.fires: tc.summary}
			maps.Copy(all, tc.also)
			for series, summary := range all {
				told, minutes := firing(t, rule, series)
				if minutes == 60 && rule.For > 0 {
					t.Error("fires from the first minute, whatever `for` says")
				}
				if diff := cmp.Diff([]string{summary}, told); diff != "" {
					t.Errorf("what is told of %s (-want +got):\n%s", series, diff)
				}
			}
		})
	}
}
