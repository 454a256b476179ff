//go:build !race

package hudimodel_test

// usual is the number of histories of each profile.
const usual = 30
