// A container in small.
//
// SPDX-License-Identifier: Apache-2.0

package guest

import "errors"

const sandboxed = "RDMA_RELAY_SANDBOX"

func enterSandbox() error { return errors.New("not yet") }
