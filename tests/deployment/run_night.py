"""One run of the DAG by Airflow: ``python run_night.py DIRECTORY [CONF] [SECONDS]``, with Airflow's Python.

``CONF`` are the run's parameters as JSON, and the task may take so many seconds. Prints how it ended, as JSON.
"""

import json
import sys
from datetime import timedelta

import pendulum
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(dag_folder=sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
dag = bag.dags["ctr_samples_nightly"]
operator = dag.get_task("generate")
assert operator.execution_timeout is not None
operator.retry_delay = timedelta(0)
if sys.argv[3:]:
    operator.execution_timeout, operator.retries = timedelta(seconds=int(sys.argv[3])), 0
run = dag.test(logical_date=pendulum.datetime(2019, 11, 27, 2), run_conf=json.loads(sys.argv[2]))
(task,) = run.get_task_instances()
end = {"run": run.state, "task": task.state, "tries": task.try_number, "result": task.xcom_pull("generate")}
print(json.dumps(end))  # noqa: T201
