// Package app is the composition root of trainjob-controller: it reads the flags,
// makes clients and informers, puts the controllers together, takes part in leader
// election, serves health and metrics, and stops everything in the right order.
//
// It knows every part and how they fit. It takes no decision about a TrainJob.
package app
