// Package metrics holds the name, the help text and the possible label values
// of every metric this program adds to those of its libraries.
//
// It knows how to count and to time; when to do so is the caller's business.
// No label takes a value from an object: names and namespaces of jobs would
// make as many series as there were ever jobs, so a value outside the fixed
// sets below is recorded as "other".
//
// Importing the package also installs client-go's queue metrics (workqueue_*),
// which have to be in place before the first queue is built, and the metrics of
// its REST client (rest_client_*).
package metrics
