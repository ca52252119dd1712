// Package settings is how a run of preflight is set up. Every setting has one name: it is
// a flag, a variable (PREFLIGHT_ and the name in capitals) and a key of the configuration
// file. A flag wins over a variable, a variable over the file, the file over the default.
//
// Variables matter most: a TrainJob can change nothing else of an init container that a
// runtime has. It reads the file that --config names, and runs nothing.
package settings
