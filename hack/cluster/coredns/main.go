// Command coredns is CoreDNS with the plugins that the cluster with real nodes needs, and
// no others: it is built in a quarter of the time.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order in which they see a query.
	dnsserver.Directives = []string{"bind", "ready", "errors", "template", "kubernetes"}
}

func main() { coremain.Run() }
