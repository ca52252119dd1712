package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/trainjob/controller/test/harness"
)

// grant is one right that a role gives to the controller.
type grant struct {
	verb, group, resource string
	name                  string // "" is any
	namespace             string // "" is any
	role                  string
}

func (g grant) String() string {
	text := fmt.Sprintf("%s: %s %s of %q", g.role, g.verb, g.resource, g.group)
	if g.name != "" {
		text += " named " + g.name
	}
	return text
}

// covers says whether a right that was used is this one.
func (g grant) covers(used harness.Right) bool {
	return g.verb == used.Verb && g.group == used.Group && g.resource == used.Resource &&
		(g.name == "" || g.name == used.Name) && (g.namespace == "" || g.namespace == used.Namespace)
}

// roleSet is what the files of a folder say about the controller.
type roleSet struct {
	rules map[string][]rbacv1.PolicyRule // by kind, namespace and name
	bound map[string]bool                // those bound to the controller
}

// readRoles are the rights of the roles in a folder that are bound to the controller's
// ServiceAccount, each verb of each resource by itself.
func readRoles(folder string) ([]grant, error) {
	set := roleSet{rules: map[string][]rbacv1.PolicyRule{}, bound: map[string]bool{}}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := set.add(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var grants []grant
	for key := range set.bound {
		rules, ok := set.rules[key]
		if !ok {
			return nil, fmt.Errorf("%s is bound to the controller but not in %s", key, folder)
		}
		for _, rule := range rules {
			more, err := expand(key, rule)
			if err != nil {
				return nil, err
			}
			grants = append(grants, more...)
		}
	}
	if len(grants) == 0 {
		return nil, fmt.Errorf("no role in %s is bound to ServiceAccount %s", folder, harness.ServiceAccount)
	}
	return grants, nil
}

func (s *roleSet) add(file []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var object struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Rules             []rbacv1.PolicyRule `json:"rules"`
			RoleRef           rbacv1.RoleRef      `json:"roleRef"`
			Subjects          []rbacv1.Subject    `json:"subjects"`
		}
		if err := yaml.Unmarshal(text, &object); err != nil {
			return err
		}
		switch object.Kind {
		case "Role", "ClusterRole":
			s.rules[roleKey(object.Kind, object.Namespace, object.Name)] = object.Rules
		case "RoleBinding", "ClusterRoleBinding":
			for _, subject := range object.Subjects {
				if subject.Name == harness.ServiceAccount && subject.Namespace == harness.SystemNamespace {
					s.bound[roleKey(object.RoleRef.Kind, object.Namespace, object.RoleRef.Name)] = true
				}
			}
		}
	}
}

// roleKey says which role it is, with the namespace in which it counts.
func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// expand takes a rule apart. Wildcards and URLs have no place in these roles.
func expand(role string, rule rbacv1.PolicyRule) ([]grant, error) {
	if len(rule.NonResourceURLs) > 0 || strings.Contains(fmt.Sprint(rule.Verbs, rule.APIGroups, rule.Resources), "*") {
		return nil, fmt.Errorf("%s: a rule that is wider than the controller needs: %v", role, rule)
	}
	namespace := ""
	if scope, ok := strings.CutPrefix(role, "Role "); ok {
		namespace, _, _ = strings.Cut(scope, "/")
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var grants []grant
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					grants = append(grants, grant{verb: verb, group: group, resource: resource, name: name, namespace: namespace, role: role})
				}
			}
		}
	}
	return grants, nil
}
