package metrics

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
)

const labelPath = "path"

// ReviewResult says how one admission review ended.
type ReviewResult string

// The ways a review can end.
const (
	ReviewAllowed   ReviewResult = "allowed"
	ReviewRefused   ReviewResult = "refused"
	ReviewError     ReviewResult = "error"     // no verdict: the API server could not be read, or too many asked
	ReviewPanic     ReviewResult = "panic"     // no verdict: a bug
	ReviewMalformed ReviewResult = "malformed" // what was sent is no review
)

// ReviewResults lists every result.
func ReviewResults() []ReviewResult {
	return []ReviewResult{ReviewAllowed, ReviewRefused, ReviewError, ReviewPanic, ReviewMalformed}
}

// Webhook records what the webhook server does. Until Register is called every method
// is a no-op. All methods are safe for concurrent use.
type Webhook struct {
	paths   []string
	reviews *metrics.HistogramVec
	expiry  *metrics.GaugeVec // without labels: a plain gauge would be 0 before it is set
}

// NewWebhook makes the metrics of a server with these paths without registering them.
func NewWebhook(paths ...string) *Webhook {
	return &Webhook{
		paths: paths,
		reviews: metrics.NewHistogramVec(&metrics.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "webhook_request_duration_seconds",
			Help: "How long an admission review took, by path and by how it ended.",
			// 0.5 ms (all from the cache) to 16 s (longer than the API server waits).
			Buckets:        metrics.ExponentialBuckets(0.0005, 2, 16),
			StabilityLevel: metrics.ALPHA,
		}, []string{labelPath, labelResult}),
		expiry: metrics.NewGaugeVec(&metrics.GaugeOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "webhook_certificate_expiration_timestamp_seconds",
			Help:           "When the certificate that the webhook serves expires, in seconds since 1970. There is none before the first certificate.",
			StabilityLevel: metrics.ALPHA,
		}, nil),
	}
}

// Register adds every metric to a registry, given by its Register method.
func (m *Webhook) Register(register func(metrics.Registerable) error) error {
	var errs []error
	for _, metric := range []metrics.Registerable{m.reviews, m.expiry} {
		if err := register(metric); err != nil {
			errs = append(errs, fmt.Errorf("register metric %s: %w", metric.FQName(), err))
		}
	}
	return errors.Join(errs...)
}

// Reviewed records one admission review. Their number is the histogram's count.
func (m *Webhook) Reviewed(path string, result ReviewResult, took time.Duration) {
	m.reviews.WithLabelValues(oneOf(m.paths, path), oneOf(ReviewResults(), result)).Observe(took.Seconds())
}

// CertificateExpires records the expiry of the certificate in use.
func (m *Webhook) CertificateExpires(notAfter time.Time) {
	m.expiry.WithLabelValues().Set(float64(notAfter.Unix()))
}
