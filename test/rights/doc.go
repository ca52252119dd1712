// Command rights compares the roles of artifacts/rbac with what the controller has used
// of them while the integration tests ran. A right that nobody needed is an error, unless
// the table of exceptions names it with its reason; so is an exception that is out of
// date.
//
// It knows YAML of roles and the files that test/harness leaves behind. That the roles
// are not too small is for the tests themselves to show: their controllers have no
// other rights.
package main
