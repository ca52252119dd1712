// Command slurm is a builder: a controller that runs TrainJobs whose runtime is a
// SlurmRuntime, a kind that the TrainJob controller is told to leave alone. It stands
// for what others would write against a batch system of their own; this one makes a
// Job of Kubernetes. docs/opaque-runtimes.md describes what a builder owes.
//
// It knows the TrainJob API as an outsider does: from YAML, through the dynamic client,
// without a line of this project's code. The kinds it serves are in crds/.
package main
