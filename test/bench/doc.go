// Command bench measures a controller of TrainJobs on etcd and an API server alone: how
// fast it is, what it costs, and how its cost grows.
//
// It drives the controller through API objects only, and plays what is missing around
// it: the JobSet controller and the garbage collector. So any controller of TrainJobs
// can be put beside ours, as a command. Every figure of speed stands beside the limit:
// the same objects, written in the same run by plain clients with the same watches open
// and no controller in between, because machines differ, and so does one machine from
// minute to minute.
//
// It checks what it measures. A burst counts only if every JobSet exists, once, and is
// right; a timer only if every job has met its end.
//
// It must not know how a controller works, only what TrainJobs promise. The few things
// it reads of a process besides (memory, CPU, metrics) come from the operating system
// or from endpoints that every controller may have.
package main
