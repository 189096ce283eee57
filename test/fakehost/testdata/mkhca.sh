# The reference for what an HCA looks like at the least: the shell function with
# which the public reports are reproduced. R is the root of the tree.
#
# SPDX-License-Identifier: Apache-2.0

# mkhca PCI IBDEV N [k=v ...]   builds one HCA below $R (sys/ and dev/)
# keys: vendor device class driver(-=unbound) ll(InfiniBand|Ethernet) state numa nets(a,b|-) ports nodes(uverbs,umad,issm|subset)
mkhca() { pci=$1 ib=$2 n=$3; shift 3
 vendor=0x15b3 device=0x1017 class=0x020000 driver=mlx5_core ll=Ethernet state='4: ACTIVE' numa=0 nets=ens$n ports=1 nodes=uverbs,umad,issm
 for kv in "$@"; do eval "${kv%%=*}='${kv#*=}'"; done
 D=$R/sys/devices/pci0000:00/$pci; mkdir -p $D $R/sys/bus/pci/devices $R/sys/bus/pci/drivers $R/dev/infiniband
 for c in net infiniband infiniband_verbs infiniband_mad; do mkdir -p $R/sys/class/$c; done
 echo $vendor >$D/vendor; echo $device >$D/device; echo $class >$D/class; echo $numa >$D/numa_node
 ln -sfn ../../../devices/pci0000:00/$pci $R/sys/bus/pci/devices/$pci
 [ $driver = - ] || { mkdir -p $R/sys/bus/pci/drivers/$driver; ln -sfn ../../../bus/pci/drivers/$driver $D/driver; }
 [ $ll = InfiniBand ] && t=32 || t=1
 if [ "$nets" != - ]; then for d in $(echo $nets|tr , ' '); do mkdir -p $D/net/$d; echo $t >$D/net/$d/type; echo up >$D/net/$d/operstate
  ln -sfn ../../../$pci $D/net/$d/device; ln -sfn ../../devices/pci0000:00/$pci/net/$d $R/sys/class/net/$d; done; fi
 [ $ib = - ] && return 0
 I=$D/infiniband/$ib; ln -sfn ../../devices/pci0000:00/$pci/infiniband/$ib $R/sys/class/infiniband/$ib
 p=1; while [ $p -le $ports ]; do mkdir -p $I/ports/$p; echo $ll >$I/ports/$p/link_layer; echo "$state" >$I/ports/$p/state; p=$((p+1)); done
 echo '1: CA' >$I/node_type; echo 0c42:a103:00c6:cf5$n >$I/node_guid; ln -sfn ../../../$pci $I/device
 for k in $(echo $nodes|tr , ' '); do case $k in uverbs) s=infiniband_verbs;; *) s=infiniband_mad;; esac
  E=$D/$s/$k$n; mkdir -p $E; echo $ib >$E/ibdev; [ $s = infiniband_mad ] && echo 1 >$E/port; ln -sfn ../../../$pci $E/device
  ln -sfn ../../devices/pci0000:00/$pci/$s/$k$n $R/sys/class/$s/$k$n; node $k $n; done; node rdma_cm; }
# node: real char device when root, else a plain file
node() { case $1 in uverbs) m="231 $((192+$2))";; umad) m="231 $2";; issm) m="231 $((64+$2))";; rdma_cm) m="10 58";; esac
 f=$R/dev/infiniband/$1$2; [ -e $f ] || mknod $f c $m 2>/dev/null || : >$f; }
