// Package cluster starts a real Kubernetes control plane on this machine for
// tests, benchmarks and the demo: etcd, kube-apiserver and, as asked for,
// kube-controller-manager, kube-scheduler, the JobSet controller with its
// webhooks, and kwok, which plays the kubelets of two nodes with GPUs.
//
// It knows how the components are built, started, reached and stopped, and how
// a simulated pod can be told to wait or to fail. It must not know anything
// about TrainJobs: CRDs and other objects come in as folders of YAML, and
// nothing of this module outside this folder is imported.
//
// # Use
//
//	c, err := cluster.Start(ctx, cluster.FullStack())
//	defer c.Stop()
//	client := kubernetes.NewForConfigOrDie(c.RESTConfig())
//
// FullStack, WithoutJobSetController and APIServerOnly are the usual profiles;
// each returns Options that a caller may change before Start. The first call
// builds the binaries (see Build), which takes minutes; later calls find them
// in a cache folder and a full stack is ready in well under half a minute.
//
// # Processes
//
// Everything listens on loopback, and every key and certificate is made for the
// one cluster. Unless Options.Persistent is set, the processes end with Stop
// and, on Linux, also when the process that called Start dies in whatever way.
//
// # Custom resources and the garbage collector
//
// kube-controller-manager's garbage collector learns the kinds it watches by
// discovery, at its start and then every 30 seconds. Kinds that matter to owner
// references therefore have to exist before it starts: name their folders in
// Options.CRDDirs. A CRD added later with InstallCRDs works, but for up to 30
// seconds its objects are neither collected nor do they hold their dependents.
//
// # Simulated pods
//
// A pod bound to one of the nodes starts after a moment, and if a Job owns it,
// it succeeds a second later. Annotations on the pod (or on a pod template)
// change that; they are the Annotation constants. A pod follows changes of its
// annotations at once, so a test lets a held pod go by removing one.
package cluster
