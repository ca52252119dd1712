// Command monitoring draws the Grafana dashboard of artifacts/monitoring from scrapes of
// a real run, with Prometheus' own query engine, since a picture of it is wanted where
// no Grafana runs. Its tests hold dashboard and alerts against the metrics that exist.
//
// It is a module of its own: what it is made of must not reach the controller's go.mod.
package main
