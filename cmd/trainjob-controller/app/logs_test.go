package app

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/trainjob/controller/pkg/queue"
)

// logCalls are the calls that write a log line or prepare one: how many arguments come
// before the keys and values, and which of them is the message, -1 for none.
var logCalls = map[string]struct{ before, message int }{
	"Info": {1, 0}, "Error": {2, 1}, "WithValues": {0, -1}, "InfoS": {1, 0}, "ErrorS": {2, 1},
}

// logReader collects the keys of the log calls in source files.
type logReader struct {
	files    *token.FileSet
	keys     map[string]bool
	problems []string
	calls    int
}

func (r *logReader) complain(node ast.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf("%s: %s", r.files.Position(node.Pos()), fmt.Sprintf(format, args...)))
}

func (r *logReader) Visit(node ast.Node) ast.Visitor {
	switch n := node.(type) {
	case *ast.CallExpr:
		r.call(n)
	case *ast.AssignStmt:
		// By its name a logger is recognized, here and by who reads the code.
		for i, value := range n.Rhs {
			if call, ok := value.(*ast.CallExpr); ok && i < len(n.Lhs) && makesLogger(call) && !isIdent(n.Lhs[i], "logger") {
				r.complain(n, "call it logger")
			}
		}
	case *ast.Field:
		if selector, ok := n.Type.(*ast.SelectorExpr); ok && isIdent(selector.X, "klog") && selector.Sel.Name == "Logger" {
			for _, name := range n.Names {
				if name.Name != "logger" {
					r.complain(n, "call it logger and not %s", name)
				}
			}
		}
	}
	return r
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

// makesLogger says whether a call returns a logger.
func makesLogger(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && fromLogger(call) && slices.Contains([]string{"FromContext", "Background", "TODO", "WithValues", "WithName", "V"}, selector.Sel.Name)
}

// fromLogger says whether an expression begins with a logger or with klog.
func fromLogger(e ast.Expr) bool {
	for {
		switch x := e.(type) {
		case *ast.CallExpr:
			e = x.Fun
		case *ast.SelectorExpr:
			e = x.X
		default:
			return isIdent(e, "logger") || isIdent(e, "klog")
		}
	}
}

func (r *logReader) call(call *ast.CallExpr) {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !fromLogger(call) {
		return
	}
	shape, known := logCalls[selector.Sel.Name]
	if !known {
		if regexp.MustCompile("^(Info|Warning|Error|Fatal|Exit)").MatchString(selector.Sel.Name) {
			r.complain(call, "%s makes a text of its values: use Info or Error with keys", selector.Sel.Name)
		}
		return
	}
	r.calls++
	if shape.message >= 0 {
		r.message(call.Args[shape.message])
	}
	pairs := call.Args[shape.before:]
	if len(pairs)%2 != 0 {
		r.complain(call, "a key without a value")
		return
	}
	for i := 0; i < len(pairs); i += 2 {
		if key, ok := literal(pairs[i]); ok {
			r.keys[key] = true
		} else if field, ok := pairs[i].(*ast.SelectorExpr); !ok || field.Sel.Name != "Object" {
			r.complain(pairs[i], "a key that cannot be read here")
		}
	}
}

func (r *logReader) message(arg ast.Expr) {
	message, ok := literal(arg)
	switch {
	case !ok:
		r.complain(arg, "a message that changes cannot be searched for: put what changes under a key")
	case message == "" || !unicode.IsUpper([]rune(message)[0]) || strings.HasSuffix(message, ".") || strings.Contains(message, "%"):
		r.complain(arg, "message %q: begin with a capital, end without a full stop, no %%", message)
	}
}

func literal(e ast.Expr) (string, bool) {
	basic, ok := e.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(basic.Value)
	return text, err == nil
}

// documentedKeys are the keys in the table of the page on monitoring.
func documentedKeys(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "monitoring.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Logs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	keys := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, key := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
				keys[key[1]] = true
			}
		}
	}
	return keys
}

func TestLogLinesHaveTheKeysOfThePageAndNoOthers(t *testing.T) {
	r := &logReader{files: token.NewFileSet(), keys: map[string]bool{queue.DefaultObject: true}}
	for _, root := range []string{"pkg", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(r.files, path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Walk(r, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if r.calls < 20 {
		t.Errorf("only %d log calls were found: this test looks past them", r.calls)
	}
	for _, problem := range r.problems {
		t.Error(problem)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(documentedKeys(t))), slices.Sorted(maps.Keys(r.keys))); diff != "" {
		t.Errorf("keys (-on the page +in the code):\n%s", diff)
	}
}

func TestWhatDeviatesInALogCallIsFound(t *testing.T) {
	cases := map[string]struct {
		code string
		keys []string
		want string
	}{
		"keys of every call": {`logger.V(2).Info("A", "a", 1); klog.FromContext(ctx).WithValues("b", 2).Error(err, "B", "c", 3)`, []string{"a", "b", "c"}, ""},
		"other calls":        {`t.Error("x", "y"); http.Error(w, "x", 1); recorder.Info("x", 1)`, nil, ""},
		"a computed key":     {`logger.Info("A", key(), 1)`, nil, "a key that cannot be read here"},
		"a key alone":        {`logger.Info("A", "a")`, nil, "a key without a value"},
		"a computed message": {`logger.Info(fmt.Sprint("a"))`, nil, "a message that changes cannot be searched for: put what changes under a key"},
		"a sentence":         {`logger.Error(err, "It failed.")`, nil, `message "It failed.": begin with a capital, end without a full stop, no %`},
		"a format":           {`klog.Infof("%d", 1)`, nil, "Infof makes a text of its values: use Info or Error with keys"},
		"a logger in hiding": {`l := klog.FromContext(ctx)`, nil, "call it logger"},
		"a hidden parameter": {`func(l klog.Logger) {}(x)`, nil, "call it logger and not l"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := &logReader{files: token.NewFileSet(), keys: map[string]bool{}}
			file, err := parser.ParseFile(r.files, "x.go", "package x\nfunc f() { "+tc.code+" }", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Walk(r, file)
			if diff := cmp.Diff(tc.keys, slices.Sorted(maps.Keys(r.keys))); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			got := strings.Join(r.problems, "\n")
			if _, what, _ := strings.Cut(got, " "); what != tc.want {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}
