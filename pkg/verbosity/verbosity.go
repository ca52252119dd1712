package verbosity

import (
	"context"

	"k8s.io/klog/v2"
)

type contextKey struct{}

// NewContext holds the verbosity of each component that has one of its own.
func NewContext(ctx context.Context, levels map[string]int) context.Context {
	return context.WithValue(ctx, contextKey{}, levels)
}

// LoggerOf is the context's logger for a component: with the component's own verbosity,
// or as it is if it has none.
func LoggerOf(ctx context.Context, component string) klog.Logger {
	logger := klog.FromContext(ctx)
	levels, _ := ctx.Value(contextKey{}).(map[string]int)
	level, found := levels[component]
	if !found {
		return logger
	}
	// What calls the sink is the threshold, one call further away from the line in the log.
	return klog.New(threshold{sink: logger.WithCallDepth(1).GetSink(), level: level})
}

// threshold lets lines up to a level through to a sink.
type threshold struct {
	sink  klog.LogSink
	level int
}

// Init does nothing: the sink has been in use before.
func (t threshold) Init(klog.RuntimeInfo) {}

func (t threshold) Enabled(level int) bool { return level <= t.level }

// Info writes a line of a level that the sink would drop as one of the highest level that
// it writes: sinks look at the level a second time.
func (t threshold) Info(level int, message string, keysAndValues ...any) {
	for level > 0 && !t.sink.Enabled(level) {
		level--
	}
	t.sink.Info(level, message, keysAndValues...)
}

func (t threshold) Error(err error, message string, keysAndValues ...any) {
	t.sink.Error(err, message, keysAndValues...)
}

func (t threshold) WithValues(keysAndValues ...any) klog.LogSink {
	t.sink = t.sink.WithValues(keysAndValues...)
	return t
}

func (t threshold) WithName(name string) klog.LogSink {
	t.sink = t.sink.WithName(name)
	return t
}

// WithCallDepth passes on how many calls lie between a helper and the line to name.
func (t threshold) WithCallDepth(depth int) klog.LogSink {
	if sink, ok := t.sink.(interface{ WithCallDepth(int) klog.LogSink }); ok {
		t.sink = sink.WithCallDepth(depth)
	}
	return t
}
