package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

var trainJobsResource = schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}

// labelTrainJob is on every Job that this builder makes.
const labelTrainJob = "slurm.example.com/trainjob"

func main() {
	kubeconfig := flag.String("kubeconfig", "", "Path of a kubeconfig file.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		klog.FromContext(ctx).Error(err, "The builder cannot run")
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "slurm-builder/test"
	config.QPS, config.Burst = 50, 100
	b := &builder{}
	if b.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if b.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	jobs := dynamicinformer.NewDynamicSharedInformerFactory(b.dynamic, 0)
	made := informers.NewSharedInformerFactoryWithOptions(b.core, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = labelTrainJob }))
	b.trainJobs, b.jobs = jobs.ForResource(trainJobsResource).Lister(), made.Batch().V1().Jobs().Lister()

	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, 10*time.Second))
	// A Job has the name of its TrainJob: one key serves both.
	add := func(object any) {
		if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add}
	for _, informer := range []cache.SharedIndexInformer{jobs.ForResource(trainJobsResource).Informer(), made.Batch().V1().Jobs().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	jobs.Start(ctx.Done())
	made.Start(ctx.Done())
	jobs.WaitForCacheSync(ctx.Done())
	made.WaitForCacheSync(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	klog.FromContext(ctx).Info("Building")
	for {
		key, over := queue.Get()
		if over {
			return nil
		}
		if err := b.sync(ctx, key); err != nil {
			klog.FromContext(ctx).Info("Trying again", "key", key, "err", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}
