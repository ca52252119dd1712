package app

import (
	"fmt"
	"sync/atomic"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/trainjob/controller/pkg/census"
	"github.com/trainjob/controller/pkg/metrics"
)

// measurements are this process's metrics, and whether it leads: what only one replica
// may say is said by the leader.
type measurements struct {
	*metrics.Metrics
	leads atomic.Bool
}

// newMeasurements registers the metrics of this program for /metrics.
func newMeasurements() (*measurements, error) {
	m := &measurements{Metrics: metrics.New()}
	if err := m.Register(legacyregistry.Register, legacyregistry.CustomRegister); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	return m, nil
}

// countJobs adds the number of jobs in the caches to the metrics.
func (m *measurements) countJobs(w *watches) error {
	api := w.trainer.Trainer().V1alpha1()
	taker := census.Taker{
		Jobs: api.TrainJobs().Lister(), ClusterRuntimes: api.ClusterTrainingRuntimes().Lister(),
		NamespaceRuntimes: api.TrainingRuntimes().Lister(), Clock: clock.RealClock{},
	}
	err := legacyregistry.CustomRegister(metrics.NewJobs(func() *metrics.Census {
		if !m.leads.Load() {
			return nil
		}
		return taker.Take()
	}))
	if err != nil {
		return fmt.Errorf("register the count of jobs: %w", err)
	}
	return nil
}

// leading notes that this replica works, or no longer does.
func (m *measurements) leading(leads bool) {
	m.leads.Store(leads)
	m.Leading(leads)
}
