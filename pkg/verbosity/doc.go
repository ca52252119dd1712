// Package verbosity gives single components of the program a verbosity of their own, with
// every format of the log: a logger that is used for one of them has its own threshold,
// whatever that of the program is.
//
// The verbosities travel in the context, from the command line to wherever a component
// makes its logger. This package knows names and numbers. It must not know which
// components there are, nor how lines are written.
package verbosity
