//go:build race

package hudimodel_test

// usual is the number of histories of each profile; the race detector makes each of them several times as expensive.
const usual = 18
