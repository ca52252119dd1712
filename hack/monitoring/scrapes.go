package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// job is the label that the ServiceMonitor puts on every series.
const job = "trainjob-controller"

// recording is a database of what was scraped, and from when to when.
type recording struct {
	db         *tsdb.DB
	start, end time.Time
	dir        string
}

// load puts a file of scrapes into a database of its own. Each begins with a line "##
// scrape MILLISECONDS INSTANCE"; the metrics follow, none if there was no answer.
func load(ctx context.Context, path string) (*recording, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "scrapes-")
	if err != nil {
		return nil, err
	}
	options := tsdb.DefaultOptions()
	options.RetentionDuration = 0
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, options, nil)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r := &recording{db: db, dir: dir}
	if err := r.fill(ctx, text); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), r.close())
	}
	return r, nil
}

func (r *recording) close() error {
	return errors.Join(r.db.Close(), os.RemoveAll(r.dir))
}

func (r *recording) fill(ctx context.Context, text []byte) error {
	before := map[string]map[string]labels.Labels{} // series of the last scrape of each instance
	for n, part := range bytes.Split(text, []byte("## scrape "))[1:] {
		head, body, _ := bytes.Cut(part, []byte("\n"))
		stamp, instance, _ := strings.Cut(string(head), " ")
		millis, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			return fmt.Errorf("scrape %d: time %q: %w", n+1, stamp, err)
		}
		at := time.UnixMilli(millis)
		if r.start.IsZero() {
			r.start = at
		}
		r.end = at
		if before[instance], err = r.add(ctx, body, at, instance, before[instance]); err != nil {
			return fmt.Errorf("scrape %d, of %s: %w", n+1, instance, err)
		}
	}
	if r.start.IsZero() {
		return errors.New("there is no scrape in it")
	}
	return nil
}

// add appends one scrape, and marks as stale what is no longer in it, as Prometheus does.
func (r *recording) add(ctx context.Context, body []byte, at time.Time, instance string, before map[string]labels.Labels) (map[string]labels.Labels, error) {
	app := r.db.Appender(ctx)
	now := map[string]labels.Labels{}
	put := func(series labels.Labels, v float64) error {
		b := labels.NewBuilder(series)
		b.Set("job", job).Set("instance", instance)
		series = b.Labels()
		now[series.String()] = series
		_, err := app.Append(0, series, at.UnixMilli(), v)
		return err
	}
	up := 0.0
	if len(body) > 0 {
		up = 1
	}
	errs := []error{put(labels.FromStrings(labels.MetricName, "up"), up), each(body, put)}
	for name, series := range before {
		if _, still := now[name]; !still {
			_, err := app.Append(0, series, at.UnixMilli(), math.Float64frombits(value.StaleNaN))
			errs = append(errs, err)
		}
	}
	return now, errors.Join(append(errs, app.Commit())...)
}

// each calls put for every series of a scrape.
func each(body []byte, put func(labels.Labels, float64) error) error {
	p := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := p.Series()
		var series labels.Labels
		p.Labels(&series)
		if err := put(series, v); err != nil {
			return err
		}
	}
}

var _ storage.Queryable = (*tsdb.DB)(nil)
