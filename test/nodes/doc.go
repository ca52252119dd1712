// Package nodes gives a control plane of package cluster two real nodes on this machine:
// kubelets with containerd and runc, a network between them, kube-proxy and cluster DNS.
// Pods are processes in containers, and names, ports, signals and exit codes are real.
//
// It knows namespaces of the kernel, the programs of a node, and how a node dies, comes
// back and is cut off. Like package cluster it must not know anything about TrainJobs.
//
// # A world of its own
//
// Everything happens in network, process and mount namespaces made for it, which takes
// Linux and root. A program calls Enter first thing in main (or TestMain); Enter starts
// the program anew inside and lets it do its work there:
//
//	func TestMain(m *testing.M) {
//		os.Exit(nodes.Enter(prepare, func(w nodes.World) int { … return m.Run() }))
//	}
//
// Inside there is loopback and the bridge that the nodes are on, and no way out: what has
// to be downloaded or built is the business of prepare, which runs outside.
//
// When the program ends, in whatever way, the kernel ends every process inside, and a
// process that waits for that moment outside removes the control groups and the folder.
//
//	outside   Enter ── janitor (waits for the end, then cleans up)
//	             └── init (first process inside)
//	                    └── the program: etcd, kube-apiserver, …, CoreDNS
//	                           ├── n1 (first process of a node): containerd, kubelet, kube-proxy
//	                           └── n2
package nodes
