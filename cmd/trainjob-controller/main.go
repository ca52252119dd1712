// Command trainjob-controller runs the TrainJob controller.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/trainjob/controller/cmd/trainjob-controller/app"
)

func main() {
	os.Exit(cli.Run(app.NewCommand()))
}
