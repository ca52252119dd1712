package policy

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/trainjob/controller/pkg/preflight/report"
)

// Form is a part of a runtime that a policy is for.
type Form string

// The parts.
const (
	Job       Form = "job"
	JobSet    Form = "jobset"
	Container Form = "container"
)

// Forms in the order of a runtime, from the outside.
var Forms = []Form{JobSet, Job, Container}

// containerName is what Kubernetes allows for a container.
var containerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// YAML is the policy for one part of a runtime with an init container of that name.
func YAML(form Form, container string) (string, error) {
	if !containerName.MatchString(container) {
		return "", fmt.Errorf("container %q is no name of a container", container)
	}
	for _, known := range Forms {
		if form == known {
			replace := strings.NewReplacer("CONTAINER", container,
				"RETRY", fmt.Sprint(report.ExitRetry), "RESCHEDULE", fmt.Sprint(report.ExitReschedule), "STOP", fmt.Sprint(report.ExitStop))
			return replace.Replace(texts[form]), nil
		}
	}
	return "", fmt.Errorf("%q is not one of %v", form, Forms)
}

// texts hold words in capitals for the name and the codes. Message patterns are of the Job
// controller's message of a rule that has matched:
// Container preflight for pod NAMESPACE/NAME failed with exit code 30 matching FailJob rule at index 1.
var texts = map[Form]string{
	JobSet: `# spec.template.spec of a runtime. The first rule that matches decides; a failure that
# none matches restarts the job, too.
failurePolicy:
  maxRestarts: 3
  restartStrategy: BlockingRecreate
  rules:
  # A drained node is nobody's fault.
  - name: disruption
    action: RestartJobSetAndIgnoreMaxRestarts
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ['has condition DisruptionTarget']
  - name: preflightFatal
    action: FailJobSet
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ['^Container CONTAINER for pod \S+ failed with exit code STOP ']
  - name: preflightRetry
    action: RestartJobSet
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ['^Container CONTAINER for pod \S+ failed with exit code (RETRY|RESCHEDULE) ']
  # It crashed, or was killed.
  - name: preflightCrashed
    action: FailJobSet
    onJobFailureReasons: [PodFailurePolicy]
    onJobFailureMessagePatterns: ['^Container CONTAINER for pod ']
`,
	Job: `# spec of the Job template.
backoffLimit: 0
podReplacementPolicy: Failed
podFailurePolicy:
  rules:
  - action: FailJob
    onPodConditions:
    - {type: DisruptionTarget, status: "True"}
  - action: FailJob
    onExitCodes: {containerName: CONTAINER, operator: NotIn, values: [0]}
template:
  spec:
    restartPolicy: Never
`,
	Container: `# The init container, from Kubernetes 1.35 on: another try in the same pod.
restartPolicy: Never
restartPolicyRules:
- action: Restart
  exitCodes: {operator: In, values: [RETRY]}
`,
}
