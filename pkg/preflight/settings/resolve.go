package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

const prefix = "PREFLIGHT_"

// Variable is the name of the environment variable of a flag.
func Variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Resolve fills in what no flag has set, from the environment and the file, and checks
// everything. Notes name variables that look like settings and are none.
func (s *Settings) Resolve(flags *pflag.FlagSet, environ []string) (notes []string, err error) {
	given := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	if notes, err = fromEnviron(flags, environ, given); err != nil {
		return nil, err
	}
	if s.Config != "" {
		if err := fromFile(flags, s.Config, given); err != nil {
			return nil, err
		}
	}
	return notes, s.validate()
}

// Lenient takes from the environment what can be taken: where to report to, when nothing
// else is understood.
func Lenient(flags *pflag.FlagSet, environ []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		flags.VisitAll(func(f *pflag.Flag) {
			if name == Variable(f.Name) && value != "" && !f.Changed {
				if old := f.Value.String(); f.Value.Set(value) != nil && f.Value.Type() != "stringSlice" {
					_ = f.Value.Set(old)
				}
			}
		})
	}
}

func fromEnviron(flags *pflag.FlagSet, environ []string, given map[string]bool) ([]string, error) {
	values := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, prefix) {
			values[name] = value
		}
	}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		name := Variable(f.Name)
		value, ok := values[name]
		delete(values, name)
		// A variable that is empty is as good as none: a runtime's can be taken back so.
		if !ok || value == "" || given[f.Name] || failed != nil {
			return
		}
		given[f.Name] = true
		if err := f.Value.Set(value); err != nil {
			failed = fmt.Errorf("variable %s is %q: %w", name, value, err)
		}
	})
	var notes []string
	for name, value := range values {
		if !ofService(name, value) {
			notes = append(notes, "no setting has the variable "+name)
		}
	}
	slices.Sort(notes)
	return notes, failed
}

// ofService tells variables that Kubernetes makes for a Service named preflight….
func ofService(name, value string) bool {
	return strings.Contains(name, "_PORT") || strings.Contains(name, "_SERVICE_") || strings.HasPrefix(value, "tcp://")
}

// fromFile reads settings by their names. Those of a check stand in the list checks, which
// is also the list of what runs: {name: dns, timeout: 60s, params: {successes: 3}}.
func fromFile(flags *pflag.FlagSet, path string, given map[string]bool) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return fmt.Errorf("config %s: %w", path, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var file map[string]any
	if err := decoder.Decode(&file); err != nil {
		return fmt.Errorf("config %s: it is no mapping of settings: %w", path, err)
	}
	set := func(key, flag string, value any) error {
		f := flags.Lookup(flag)
		if f == nil || flag == "config" {
			return fmt.Errorf("config %s: there is no setting %s", path, key)
		}
		text, err := scalar(value)
		if err != nil {
			return fmt.Errorf("config %s: %s: %w", path, key, err)
		}
		if given[flag] {
			return nil
		}
		if err := f.Value.Set(text); err != nil {
			return fmt.Errorf("config %s: %s is %q: %w", path, key, text, err)
		}
		return nil
	}
	for key, value := range file {
		if list, ok := value.([]any); ok && key == "checks" {
			err = fromChecks(list, set)
		} else {
			err = set(key, key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func fromChecks(list []any, set func(key, flag string, value any) error) error {
	var names []any
	for i, entry := range list {
		check, ok := entry.(map[string]any)
		if !ok {
			names = append(names, entry)
			continue
		}
		name, ok := check["name"].(string)
		if !ok {
			return fmt.Errorf("checks[%d] has no name", i)
		}
		names = append(names, name)
		for key, value := range check {
			params, nested := value.(map[string]any)
			switch {
			case key == "name":
			case key == "params" && nested:
				for param, value := range params {
					if err := set(fmt.Sprintf("checks[%d].params.%s", i, param), name+"-"+param, value); err != nil {
						return err
					}
				}
			default:
				if err := set(fmt.Sprintf("checks[%d].%s", i, key), name+"-"+key, value); err != nil {
					return err
				}
			}
		}
	}
	return set("checks", "checks", names)
}

// scalar is a value as a flag would have it: lists are joined by commas.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, json.Number:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			part, err := scalar(item)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("it is neither a value nor a list of values")
}
