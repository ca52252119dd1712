package app

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// --kube-api-qps is of all controllers together, and of nobody else.
func TestTheClientsOfTheControllersShareOneLimit(t *testing.T) {
	shared := flowcontrol.NewTokenBucketRateLimiter(7, 7)
	c, err := newClients(&rest.Config{Host: "127.0.0.1:1", RateLimiter: shared}, NewOptions())
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]rest.Interface{
		"core": c.core.CoreV1().RESTClient(), "batch": c.core.BatchV1().RESTClient(),
		"TrainJobs": c.trainer.TrainerV1alpha1().RESTClient(), "JobSets": c.jobSet.JobsetV1alpha2().RESTClient(),
	} {
		if client.GetRateLimiter() != shared {
			t.Errorf("%s: a limit of its own", name)
		}
	}
	for name, client := range map[string]rest.Interface{
		"events": c.events.CoreV1().RESTClient(), "election": c.election.CoordinationV1().RESTClient(),
		"webhook": c.webhook.CoreV1().RESTClient(), "webhook's TrainJobs": c.webhookTrainer.TrainerV1alpha1().RESTClient(),
	} {
		if client.GetRateLimiter() == shared {
			t.Errorf("%s: no limit of its own", name)
		}
	}
}
