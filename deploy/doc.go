// Package deploy holds what runs Tidemark and looks after it: alert rules, a board for Grafana, and the parts of docker-compose.yml.
// It has tests only: a container engine is not needed to find out that names, mounts and settings fit each other.
package deploy
