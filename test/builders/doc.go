// Package builders makes the objects that tests start from, as an API server would
// return them: defaulted, with a UID and a creation time, and otherwise as small as
// they can be. What a test is about is added by options; an option is any function
// of the object, so a test can write its own in place.
//
// It knows the API types only. It must not import the packages under test.
package builders
