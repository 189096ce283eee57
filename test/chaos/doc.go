// Package chaos tries the claim that rdma-relay never gets stuck: the two programs,
// built with the race detector, run over a fake host and a fake kubelet while faults
// come by chance, and whenever the faults pause, kubelet must soon list just what the
// host and the configuration say.
//
// What happens in a step depends on the seed and the step's number alone, so that a
// failed campaign can be run again, and shorter: see TestCampaign.
//
// SPDX-License-Identifier: Apache-2.0
package chaos
