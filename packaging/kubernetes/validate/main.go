// Command validate decodes Kubernetes Jobs with the types of the API, refuses unknown fields, and prints the arguments of
// their containers as JSON, one Job a line. A directory is a Helm chart; further arguments KEY=VALUE set its values.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("give a manifest, or a chart and values"))
	}
	text, err := manifest(os.Args[1], os.Args[2:])
	if err != nil {
		fail(err)
	}
	var job batch.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		fail(fmt.Errorf("%s: %w", os.Args[1], err))
	}
	if job.APIVersion != "batch/v1" || job.Kind != "Job" || len(job.Spec.Template.Spec.Containers) != 1 {
		fail(fmt.Errorf("%s is no Job of batch/v1 with one container", os.Args[1]))
	}
	spec := job.Spec
	if spec.CompletionMode == nil || *spec.CompletionMode != batch.IndexedCompletion ||
		spec.Completions == nil || spec.Parallelism == nil || *spec.Completions != *spec.Parallelism {
		fail(fmt.Errorf("%s is no Indexed Job whose pods run together", os.Args[1]))
	}
	out, err := json.Marshal(map[string]any{
		"pods": *spec.Completions,
		"args": spec.Template.Spec.Containers[0].Args,
	})
	if err != nil {
		fail(err)
	}
	fmt.Println(string(out))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Reads a manifest, or renders the Job of a chart. The functions are those of Helm that the chart uses.
func manifest(path string, settings []string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.ReadFile(path)
	}
	values := map[string]any{}
	defaults, err := os.ReadFile(filepath.Join(path, "values.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(defaults, &values); err != nil {
		return nil, err
	}
	for _, setting := range settings {
		if err := set(values, setting); err != nil {
			return nil, err
		}
	}
	functions := template.FuncMap{
		"quote":    func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
		"toString": func(value any) string { return fmt.Sprint(value) },
		"toYaml": func(value any) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent": func(spaces int, text string) string {
			indent := "\n" + strings.Repeat(" ", spaces)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"required": func(message string, value any) (any, error) {
			if value == nil || value == "" {
				return nil, errors.New(message)
			}
			return value, nil
		},
	}
	job := filepath.Join(path, "templates", "job.yaml")
	parsed, err := template.New("job.yaml").Funcs(functions).ParseFiles(job)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]any{"Values": values, "Release": map[string]any{"Name": "test"}})
	return out.Bytes(), err
}

// Sets a value that the chart has, such as target.url=postgres://target.
func set(values map[string]any, setting string) error {
	name, text, found := strings.Cut(setting, "=")
	if !found {
		return fmt.Errorf("%s is no KEY=VALUE", setting)
	}
	keys := strings.Split(name, ".")
	for _, key := range keys[:len(keys)-1] {
		inner, ok := values[key].(map[string]any)
		if !ok {
			return fmt.Errorf("the chart has no value %s", name)
		}
		values = inner
	}
	last := keys[len(keys)-1]
	if _, known := values[last]; !known {
		return fmt.Errorf("the chart has no value %s", name)
	}
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	values[last] = value
	return nil
}
