package certificate

import (
	"errors"
	"sync"

	"k8s.io/klog/v2"
)

// watch remembers what the last looks have shown, for who asks whether all is well.
type watch struct {
	mu        sync.Mutex
	endpoints []Endpoint
	seen      bool
	trouble   error
}

// observed notes how the API server calls the webhooks.
func (w *watch) observed(all []configuration, troubles error) error {
	found, err := endpoints(all)
	if err = errors.Join(troubles, err); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endpoints, w.seen = found, true
	return nil
}

// note logs troubles once for as long as they stay the same.
func (w *watch) note(logger klog.Logger, err error) {
	w.mu.Lock()
	before := w.trouble
	w.trouble = err
	w.mu.Unlock()
	var missing *missingError
	switch {
	case err == nil && before == nil, err != nil && before != nil && err.Error() == before.Error():
	case err == nil:
		logger.Info("The webhook's certificate and configurations are in order again")
	case errors.As(err, &missing):
		logger.Info("The webhook waits", "reason", err.Error())
	default:
		logger.Error(err, "Looking after the webhook's certificate, retrying")
	}
}

// Endpoints says how the API server calls the webhooks, or why it does not. While the
// API server does not answer, what it said last holds: a webhook that works must not be
// taken out of service because of that.
func (w *watch) Endpoints() ([]Endpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var missing *missingError
	switch {
	case w.trouble != nil && (!w.seen || errors.As(w.trouble, &missing)):
		return nil, w.trouble
	case !w.seen:
		return nil, errors.New("the webhook configurations have not been read yet")
	}
	return w.endpoints, nil
}
