import sys, time
from .scenario import run
t=time.process_time(); sim=0; n=0; msgs=0; lines=0
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    o=run(seed); sim+=o.seconds; n+=1; msgs+=o.messages; lines+=len(o.trace)
    if o.anomaly: print(o.report()); break
d=time.process_time()-t
print(n, "seeds", f"{d:.2f} s", f"{d/n*1000:.0f} ms/seed", f"{sim/d:.0f} sim s/s", msgs, lines)
