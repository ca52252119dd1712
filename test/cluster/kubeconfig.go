package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	adminUser   = "local-admin"
	adminGroup  = "system:masters"
	contextName = "trainjob-local"
)

// kubeconfig holds all key material itself, so that the file can be moved.
func kubeconfig(server string, ca []byte, user string, credentials pair) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[contextName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificateData: credentials.cert,
		ClientKeyData:         credentials.key,
	}
	config.Contexts[contextName] = &clientcmdapi.Context{Cluster: contextName, AuthInfo: user}
	config.CurrentContext = contextName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig of %s: %w", user, err)
	}
	return data, nil
}

// WriteKubeconfig writes a kubeconfig for a user of any name and groups, whose
// rights are what RBAC gives them: how a test runs a program as its deployment
// would. Without groups the user has no rights of their own.
func (c *Cluster) WriteKubeconfig(path, user string, groups ...string) error {
	credentials, err := c.ca.client(user, groups...)
	if err != nil {
		return err
	}
	data, err := kubeconfig(c.server(), c.ca.pem, user, credentials)
	if err != nil {
		return err
	}
	return writeFile(path, data, 0o600)
}

// RESTConfig returns a new client configuration with all rights and without
// client-side rate limits.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// RESTConfigFor is RESTConfig for a user of any name and groups, whose rights
// are what RBAC gives them.
func (c *Cluster) RESTConfigFor(user string, groups ...string) (*rest.Config, error) {
	credentials, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(c.server(), c.ca.pem, credentials), nil
}

func restConfig(server string, ca []byte, credentials pair) *rest.Config {
	return &rest.Config{
		Host:            server,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: credentials.cert, KeyData: credentials.key},
	}
}
