package report

// What the JSON calls itself.
const (
	APIVersion = "preflight.trainer.kubeflow.org/v1alpha1"
	Kind       = "PreflightReport"
)

// Exit codes of the binary. They never change: policies of running jobs match them.
const (
	ExitPass       = 0
	ExitWarning    = 10 // only with --detailed-exitcode: any other than 0 fails a pod
	ExitRetry      = 20
	ExitReschedule = 21
	ExitStop       = 30
	ExitSignal     = 143 // ended by SIGTERM: no verdict
)

// Status is how a check went.
type Status string

// Fail is a verdict; Error says that the check could not be made.
const (
	StatusPass    Status = "Pass"
	StatusWarn    Status = "Warn"
	StatusFail    Status = "Fail"
	StatusError   Status = "Error"
	StatusSkipped Status = "Skipped"
)

// Outcome is what a status means for the job.
type Outcome string

// From best to worst. Skipped is the outcome of a run in which nothing was looked at.
const (
	Skipped    Outcome = "Skipped"
	Pass       Outcome = "Pass"
	Warning    Outcome = "Warning"
	Retryable  Outcome = "Retryable"
	Reschedule Outcome = "Reschedule"
	Fatal      Outcome = "Fatal"
)

// Outcomes from best to worst.
var Outcomes = []Outcome{Skipped, Pass, Warning, Retryable, Reschedule, Fatal}

// Worse tells whether o is worse than other.
func (o Outcome) Worse(other Outcome) bool { return o.severity() > other.severity() }

func (o Outcome) severity() int {
	for i, known := range Outcomes {
		if o == known {
			return i
		}
	}
	return -1
}

// Action is what follows from an outcome.
type Action string

// What is done about a pod, or with its job.
const (
	Continue         Action = "Continue"
	Retry            Action = "Retry"
	RescheduleAction Action = "Reschedule"
	Stop             Action = "Stop"
)

// Action that follows from the outcome.
func (o Outcome) Action() Action {
	switch o {
	case Retryable:
		return Retry
	case Reschedule:
		return RescheduleAction
	case Fatal:
		return Stop
	}
	return Continue
}

// Scope says whose fault a finding is: of this node, of the job as it is written, of
// another rank, or of something the whole cluster shares.
type Scope string

// Whose fault a finding is.
const (
	ScopeNode    Scope = "Node"
	ScopeJob     Scope = "Job"
	ScopePeer    Scope = "Peer"
	ScopeCluster Scope = "Cluster"
)

// Reasons that are not of one check.
const (
	ReasonPassed        = "Passed"
	ReasonDisabled      = "Disabled"
	ReasonInvalidConfig = "InvalidConfig"
	ReasonInternalError = "InternalError"
	ReasonTimeout       = "PreflightTimeout"
	ReasonToolMissing   = "ToolMissing"
	ReasonNotReached    = "NotReached"
)

// Finding is what one check saw.
type Finding struct {
	Status Status `json:"status" jsonschema:"enum=Pass,enum=Warn,enum=Fail,enum=Error,enum=Skipped"`
	// Outcome of a Fail; the rules may make it better or worse.
	Outcome Outcome `json:"outcome" jsonschema:"enum=Pass,enum=Warning,enum=Retryable,enum=Reschedule,enum=Fatal"`
	Scope   Scope   `json:"scope,omitempty" jsonschema:"enum=Node,enum=Job,enum=Peer,enum=Cluster"`
	// Reason is CamelCase and stable; fit for a condition's reason.
	Reason  string `json:"reason" jsonschema:"pattern=^[A-Z][A-Za-z0-9]*$,maxLength=128"`
	Message string `json:"message"`
	// Hint says what to do.
	Hint     string            `json:"hint,omitempty"`
	Observed map[string]string `json:"observed,omitempty"`
	Expected map[string]string `json:"expected,omitempty"`
	// Final findings do not change by looking again.
	Final bool `json:"-"`
}

// Check is a finding with what is known about the check that made it.
type Check struct {
	Name string `json:"name" jsonschema:"minLength=1"`
	Finding
	Action   Action `json:"action" jsonschema:"enum=Continue,enum=Retry,enum=Reschedule,enum=Stop"`
	Required bool   `json:"required"`
	// Attempts within this run.
	Attempts   int   `json:"attempts" jsonschema:"minimum=0"`
	DurationMS int64 `json:"durationMs" jsonschema:"minimum=0"`

	policy CheckPolicy
}

// Report is what one run found on one node.
type Report struct {
	APIVersion string  `json:"apiVersion" jsonschema:"enum=preflight.trainer.kubeflow.org/v1alpha1"`
	Kind       string  `json:"kind" jsonschema:"enum=PreflightReport"`
	Outcome    Outcome `json:"outcome" jsonschema:"enum=Skipped,enum=Pass,enum=Warning,enum=Retryable,enum=Reschedule,enum=Fatal"`
	ExitCode   int     `json:"exitCode" jsonschema:"enum=0,enum=10,enum=20,enum=21,enum=30"`
	Action     Action  `json:"action" jsonschema:"enum=Continue,enum=Retry,enum=Reschedule,enum=Stop"`
	// Reason and Message are those of the worst check.
	Reason  string `json:"reason" jsonschema:"pattern=^[A-Z][A-Za-z0-9]*$,maxLength=128"`
	Message string `json:"message"`
	// StartTime is RFC 3339 in UTC.
	StartTime  string `json:"startTime" jsonschema:"format=date-time"`
	DurationMS int64  `json:"durationMs" jsonschema:"minimum=0"`
	// Attempt counts runs in this pod, or restarts of the job where the pod has no memory.
	Attempt     int    `json:"attempt" jsonschema:"minimum=1"`
	MaxAttempts int    `json:"maxAttempts" jsonschema:"minimum=1"`
	Version     string `json:"version"`
	Node        string `json:"node,omitempty"`
	Pod         string `json:"pod,omitempty"`
	Namespace   string `json:"namespace,omitempty"`
	Rank        *int   `json:"rank,omitempty" jsonschema:"minimum=0"`
	NNodes      int    `json:"nnodes,omitempty" jsonschema:"minimum=1"`
	// Notes are remarks on the run itself, such as a variable that no setting has.
	Notes  []string `json:"notes,omitempty"`
	Checks []Check  `json:"checks"`
	// Omitted counts the checks that the compact form leaves out.
	Omitted int `json:"omitted,omitempty" jsonschema:"minimum=1"`
}
