"""One run of the DAG by Airflow: ``python run_night.py DIRECTORY``, with Airflow's Python. Prints how it ended, as JSON."""

import json
import sys
from datetime import timedelta

import pendulum
from airflow.dag_processing.dagbag import DagBag

bag = DagBag(dag_folder=sys.argv[1])
assert bag.import_errors == {}, bag.import_errors
dag = bag.dags["ctr_samples_nightly"]
dag.get_task("generate").retry_delay = timedelta(0)
run = dag.test(logical_date=pendulum.datetime(2019, 11, 27, 2))
(task,) = run.get_task_instances()
end = {"run": run.state, "task": task.state, "tries": task.try_number, "result": task.xcom_pull("generate")}
print(json.dumps(end))  # noqa: T201
