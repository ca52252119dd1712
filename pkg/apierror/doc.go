// Package apierror says what an error of a call to the API server means for whoever made
// the call: whether the user has to be told, whether an event is on its way, and whether
// to try again.
//
// It knows the answers of the API server, by code, reason, cause and, where there is
// nothing else, by their text: one table ([Of]), from which docs/api-answers.md is
// written. It does not know what was sent, nor what is done about it; a canceled context
// is for the caller to recognise, which knows who canceled it.
package apierror
