package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
)

// world is what a process knows of the others.
type world struct {
	rank, size int
	// meeting is where the process of rank 0 listens, host:port.
	meeting string
	// local is how many processes this node still has to start; 1 for a process itself.
	local int
}

// find reads who this process is from the variables of whichever framework there is.
func find(env func(string) string) (world, error) {
	switch {
	case env("RANK") != "": // as torchrun starts its workers, and so does launch
		return ranked(env, "RANK", "WORLD_SIZE", net.JoinHostPort(env("MASTER_ADDR"), env("MASTER_PORT")))
	case env("PET_NNODES") != "":
		w, err := ranked(env, "PET_NODE_RANK", "PET_NNODES", net.JoinHostPort(env("PET_MASTER_ADDR"), env("PET_MASTER_PORT")))
		if err != nil {
			return w, err
		}
		w.local, err = processes(env("PET_NPROC_PER_NODE"))
		return w, err
	case env("JAX_NUM_PROCESSES") != "":
		return ranked(env, "JAX_PROCESS_ID", "JAX_NUM_PROCESSES", env("JAX_COORDINATOR_ADDRESS"))
	case env("DMLC_NUM_WORKER") != "":
		return ranked(env, "DMLC_TASK_ID", "DMLC_NUM_WORKER", net.JoinHostPort(env("DMLC_TRACKER_URI"), env("DMLC_TRACKER_PORT")))
	default:
		return world{}, fmt.Errorf("no variables of any framework: PET_NNODES, JAX_NUM_PROCESSES and DMLC_NUM_WORKER are empty")
	}
}

func ranked(env func(string) string, rank, size, meeting string) (world, error) {
	w := world{meeting: meeting, local: 1}
	var err error
	if w.rank, err = strconv.Atoi(env(rank)); err != nil {
		return w, fmt.Errorf("%s: %w", rank, err)
	}
	if w.size, err = strconv.Atoi(env(size)); err != nil {
		return w, fmt.Errorf("%s: %w", size, err)
	}
	if w.rank < 0 || w.rank >= w.size {
		return w, fmt.Errorf("%s=%d, but there are %d (%s)", rank, w.rank, w.size, size)
	}
	if _, _, err := net.SplitHostPort(meeting); err != nil {
		return w, fmt.Errorf("address of the first process: %w", err)
	}
	return w, nil
}

// processes are those of a node, as torchrun reads PET_NPROC_PER_NODE without a GPU.
func processes(value string) (int, error) {
	if value == "auto" || value == "cpu" {
		return runtime.NumCPU(), nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("PET_NPROC_PER_NODE=%q is no number of processes", value)
	}
	return n, nil
}

// launch starts the processes of this node, as torchrun does, and ends all when one fails.
func launch(node world) error {
	host, port, err := net.SplitHostPort(node.meeting)
	if err != nil {
		return err
	}
	ended := make(chan error, node.local)
	var all []*exec.Cmd
	for i := range node.local {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), "MASTER_ADDR="+host, "MASTER_PORT="+port,
			fmt.Sprintf("RANK=%d", node.rank*node.local+i), fmt.Sprintf("WORLD_SIZE=%d", node.size*node.local))
		if err := cmd.Start(); err != nil {
			return err
		}
		all = append(all, cmd)
		go func() { ended <- cmd.Wait() }()
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		for range signals {
			for _, cmd := range all {
				_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			}
		}
	}()
	var first error
	for range all {
		if err := <-ended; err != nil && first == nil {
			first = fmt.Errorf("a process of node %d: %w", node.rank, err)
			for _, cmd := range all {
				_ = cmd.Process.Kill() // it may have ended
			}
		}
	}
	return first
}
