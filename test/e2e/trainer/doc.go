// Command trainer is a training program small enough to read: as many processes as it is
// told meet over TCP, and in every step each contributes a number that it alone knows, and
// checks the sum. What it finds in its environment is all that it goes by, so a job that
// completes proves that variables, names and ports are right and not only there.
//
//	trainer [flags]                 one node of a job: PET_*, JAX_* or DMLC_* say which
//	trainer -prepare FILE           an initializer: writes STORAGE_URI to a file
//
// It knows the variables of the frameworks. It knows nothing of Kubernetes.
package main
