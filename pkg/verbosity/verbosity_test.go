package verbosity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// formats make a logger of each format that the program writes, of a verbosity.
var formats = map[string]func(out *bytes.Buffer, v int) klog.Logger{
	"text": func(out *bytes.Buffer, v int) klog.Logger {
		return textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(out), textlogger.Verbosity(v)))
	},
	"json": func(out *bytes.Buffer, v int) klog.Logger {
		logger, _ := json.NewJSONLogger(logsapi.VerbosityLevel(v), json.AddNopSync(out), nil, nil)
		return logger
	},
}

// speak writes a line of each kind with a component's logger, and returns the messages
// that arrive.
func speak(out *bytes.Buffer, ctx context.Context, component string) []string {
	out.Reset()
	logger := LoggerOf(ctx, component).WithValues("queue", component)
	for level, message := range []string{"zero", "one", "two", "three", "four", "five"} {
		logger.V(level).Info(message, "trainJob", "a/b")
	}
	logger.Error(errors.New("no"), "error")
	return regexp.MustCompile(`\b(zero|one|two|three|four|five|error)\b`).FindAllString(out.String(), -1)
}

func TestEachComponentIsAsVerboseAsItWasTold(t *testing.T) {
	for format, newLogger := range formats {
		for name, tc := range map[string]struct {
			v         int
			component string
			want      string
		}{
			"more than the others":     {0, "loud", "zero one two three four error"},
			"a little more":            {2, "loud", "zero one two three four error"},
			"less than the others":     {5, "quiet", "zero error"},
			"one that was not named":   {2, "other", "zero one two error"},
			"not named, and all quiet": {0, "other", "zero error"},
		} {
			t.Run(format+", "+name, func(t *testing.T) {
				var out bytes.Buffer
				ctx := klog.NewContext(NewContext(t.Context(), map[string]int{"loud": 4, "quiet": 0}), newLogger(&out, tc.v))
				if diff := cmp.Diff(tc.want, strings.Join(speak(&out, ctx, tc.component), " ")); diff != "" {
					t.Errorf("lines (-want +got):\n%s\n%s", diff, &out)
				}
			})
		}
	}
}

func TestLinesNameTheirKeysAndWhoWroteThem(t *testing.T) {
	for format, newLogger := range formats {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			ctx := klog.NewContext(NewContext(t.Context(), map[string]int{"loud": 4}), newLogger(&out, 0))
			speak(&out, ctx, "loud")
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			for _, line := range lines {
				for _, part := range []string{"verbosity_test.go:", "queue", "loud"} {
					if !strings.Contains(line, part) {
						t.Errorf("%q is not in %s", part, line)
					}
				}
			}
			help := func() { LoggerOf(ctx, "loud").WithCallDepth(1).V(4).Info("five") }
			out.Reset()
			_, _, line, _ := runtime.Caller(0)
			help() // in the line after that
			if want := fmt.Sprintf("verbosity_test.go:%d", line+1); !strings.Contains(out.String(), want) {
				t.Errorf("%s is not in %s", want, &out)
			}
		})
	}
}
