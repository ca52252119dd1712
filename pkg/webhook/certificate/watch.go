package certificate

import (
	"errors"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// watch remembers what the last looks have shown, for who asks whether all is well.
type watch struct {
	mu        sync.Mutex
	endpoints []Endpoint
	seen      bool
	trouble   error
	// absent says what was missing at the last look, and pause how long it was waited then.
	absent string
	pause  time.Duration
}

// troubles are what is wrong with the configurations. One that is missing is none as long
// as there is another: what the other asks must be answered.
func troubles(all []configuration, missing *missingError, err error) error {
	if err == nil && len(all) == 0 && missing != nil {
		return missing
	}
	return err
}

// isMissing says whether all that is wrong is that there are no configurations.
func isMissing(err error) bool {
	_, alone := err.(*missingError) // not one among others
	return alone
}

// wait says how long to wait when nothing is under way: long, and for a configuration
// that is missing first short and then longer and longer.
func (w *watch) wait(logger klog.Logger, all []configuration, missing *missingError, busy, steady time.Duration) time.Duration {
	if missing == nil {
		w.absent, w.pause = "", 0
		return steady
	}
	if now := missing.Error(); now != w.absent {
		w.absent, w.pause = now, 0
		if len(all) > 0 { // otherwise it is a trouble, and logged as such
			logger.Info("A webhook configuration is missing, the other is served", "reason", now)
		}
	}
	w.pause = min(max(busy, 2*w.pause), steady)
	return w.pause
}

// observed notes how the API server calls the webhooks.
func (w *watch) observed(all []configuration, troubles error) error {
	found, err := endpoints(all)
	if troubles != nil {
		return troubles
	}
	if err != nil {
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
